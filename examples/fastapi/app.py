"""A FastAPI application that checks domains of messages against a table, whose server does not learn the domains.

SPIREA_URL is the address of the server, and `blocked` the name of its table.
"""

import os
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException, Request

import spirea


@asynccontextmanager
async def lifespan(app):
    """Opens one client for all requests: it keeps the connection, and the hint or the keys."""
    async with spirea.AsyncClient(os.environ["SPIREA_URL"], "blocked") as client:
        app.state.client = client
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/domains/{name}")
async def domain(name: str, request: Request):
    """Returns the verdict on a domain. An error is not an answer: it gives 503, never "fine"."""
    try:
        record = await request.app.state.client.get(name)
    except spirea.LookUpError as error:
        raise HTTPException(503, "the list cannot be asked now") from error
    return {"listed": record is not None, "verdict": record.text("verdict") if record is not None else None}
