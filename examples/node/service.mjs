// A service in Node that answers GET /check?key=... from a table whose server does not learn the key.
// usage: SPIREA_URL=http://127.0.0.1:7521 PORT=8001 node service.mjs
import { createServer } from "node:http";
import { Client } from "spirea";

const client = await Client.connect(process.env.SPIREA_URL, { database: "blocked" });

/** Sends a response of JSON. */
function send(response, status, body) {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}

const server = createServer(async (request, response) => {
  const url = new URL(request.url, "http://localhost");
  const key = url.searchParams.get("key");
  if (request.method !== "GET" || url.pathname !== "/check" || !key) {
    send(response, 400, { error: "ask GET /check?key=KEY" });
    return;
  }
  try {
    const value = await client.get(key);
    send(response, 200, { listed: value !== undefined, verdict: value?.text("verdict") ?? null });
  } catch {
    // An error is not an answer: it never means that the key is not on the list.
    send(response, 503, { error: "the list cannot be asked now" });
  }
});

server.listen(Number(process.env.PORT ?? 8001), "127.0.0.1", () => {
  console.log(`listening on ${server.address().port}`);
});
