// Capture of streams into graphs, and launches of graphs.
#include <algorithm>

#include "driver.hpp"

namespace driver {

namespace {

Graph& graph_in(std::map<Graph*, std::unique_ptr<Graph>>& graphs, Graph* handle) {
    require(graphs.contains(handle), INVALID_HANDLE, "this is no graph");
    return *handle;
}

int instantiate(Graph** executable, Graph* handle) {
    return in_context([&](Context&) {
        auto copy = std::make_unique<Graph>(graph_in(state().graphs, handle));
        *executable = copy.get();
        state().executables[copy.get()] = std::move(copy);
    });
}

}  // namespace

// Runs the nodes in an order that the dependencies allow: as captured, or always the last node that
// is ready.
void run_graph(const Graph& graph, Context& context) {
    const bool reversed = state().configuration.stream_order != StreamOrder::Eager;
    const size_t count = graph.nodes.size();
    std::vector<bool> done(count);
    const auto ready = [&](size_t node) {
        if (done[node]) return false;
        for (size_t before : graph.nodes[node].after) {
            if (!done[before]) return false;
        }
        return true;
    };
    for (size_t ran = 0; ran < count; ran++) {
        size_t node = 0;
        for (size_t i = 0; i < count; i++) {
            node = reversed ? count - 1 - i : i;
            if (ready(node)) break;
        }
        if (context.lost == SUCCESS) graph.nodes[node].task.work(context);
        done[node] = true;
    }
}

}  // namespace driver

using namespace driver;

// Mode 0 refuses unsafe calls of all threads, mode 1 of the calling thread only. Mode 2, which
// refuses none, is not emulated.
EXPORTED int cuStreamBeginCapture_v2(Stream* handle, int mode) {
    return initialised([&] {
        Stream& stream = stream_of(handle);
        require(!stream.capture, CAPTURE_UNSUPPORTED, "the stream captures already");
        require(mode == 0 || mode == 1, INVALID_VALUE, "this mode of capturing is not emulated");
        auto graph = std::make_unique<Graph>();
        graph->context = stream.context;
        graph->origin = &stream;
        graph->thread = std::this_thread::get_id();
        graph->of_thread = mode == 1;
        stream.capture = graph.get();
        stream.front.clear();
        state().graphs[graph.get()] = std::move(graph);
    });
}

EXPORTED int cuStreamEndCapture(Stream* handle, Graph** result) {
    return initialised([&] {
        Stream& stream = stream_of(handle);
        Graph* graph = stream.capture;
        require(graph && graph->origin == &stream, CAPTURE_UNMATCHED, "the capture did not begin in this stream");
        // Every node must lead to the stream's last nodes; otherwise a forked stream was not
        // joined.
        std::vector<bool> joined(graph->nodes.size());
        for (size_t node : stream.front) joined[node] = true;
        for (size_t node = joined.size(); node-- > 0;) {
            if (!joined[node]) continue;
            for (size_t before : graph->nodes[node].after) joined[before] = true;
        }
        const bool unjoined = std::find(joined.begin(), joined.end(), false) != joined.end();
        for (const auto& other : state().streams) {
            if (other->capture != graph) continue;
            other->capture = nullptr;
            other->front.clear();
        }
        for (auto& [event_handle, event] : state().events) {
            if (event->captured == graph) event->captured = nullptr;
        }
        *result = nullptr;
        if (graph->invalid || unjoined) {
            const Result code = graph->invalid ? CAPTURE_INVALIDATED : CAPTURE_UNJOINED;
            state().graphs.erase(graph);
            refuse(code, "the capture is invalid, or a stream that joined it was not joined back");
        }
        *result = graph;
    });
}

EXPORTED int cuStreamIsCapturing(Stream* handle, int* status) {
    return initialised([&] {
        const Stream& stream = stream_of(handle);
        *status = !stream.capture ? 0 : stream.capture->invalid ? 2 : 1;
    });
}

EXPORTED int cuGraphInstantiateWithFlags(Graph** executable, Graph* graph, unsigned long long) {
    return instantiate(executable, graph);
}
EXPORTED int cuGraphInstantiate_v2(Graph** executable, Graph* graph, void*, char*, size_t) {
    return instantiate(executable, graph);
}

EXPORTED int cuGraphUpload(Graph* executable, Stream* handle) {
    return initialised([&] {
        graph_in(state().executables, executable);
        stream_of(handle);
    });
}

EXPORTED int cuGraphLaunch(Graph* executable, Stream* handle) {
    return initialised([&] {
        const Graph& graph = graph_in(state().executables, executable);
        Stream& stream = stream_of(handle);
        require(graph.context == stream.context, INVALID_HANDLE, "the graph and the stream are of different contexts");
        // Captures a copy: the executable may be destroyed while the launch is queued.
        enqueue(stream, {.work = [graph](Context& context) { run_graph(graph, context); }});
    });
}

EXPORTED int cuGraphDestroy(Graph* graph) {
    return initialised([&] {
        graph_in(state().graphs, graph);
        state().graphs.erase(graph);
    });
}

EXPORTED int cuGraphExecDestroy(Graph* executable) {
    return initialised([&] {
        graph_in(state().executables, executable);
        state().executables.erase(executable);
    });
}
