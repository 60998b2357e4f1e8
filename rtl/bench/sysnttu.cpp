// Runs a program of `sysnttu_vectors` on the unit, compares every word, and prints the measured
// intervals and latencies as one JSON object: bench PROGRAM LANES.

#include <cstdint>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

#include "Vsysnttu.h"
#include "verilated.h"

namespace {

constexpr int WORD = 28;
constexpr uint64_t PRIMES[] = {
    (1 << 27) + (1 << 15) + 1, (1 << 27) + (1 << 17) + 1, (1 << 27) + (1 << 21) + 1, (1 << 27) + (1 << 22) + 1};

int lanes, bits, rows, columns;

[[noreturn]] void fail(const std::string& what) {
    std::cerr << "FAILED: " << what << std::endl;
    std::exit(1);
}

uint32_t reversed(uint32_t number, int count) {
    uint32_t turned = 0;
    for (int i = 0; i < count; i++) turned |= (number >> i & 1) << (count - 1 - i);
    return turned;
}

// Writes word `place` of a wide port.
template <typename Port>
void put(Port& port, int place, uint64_t word) {
    for (int i = 0; i < WORD; i++) {
        int at = place * WORD + i;
        port[at / 32] = (port[at / 32] & ~(1u << at % 32)) | static_cast<uint32_t>(word >> i & 1) << at % 32;
    }
}

template <typename Port>
uint32_t get(const Port& port, int place) {
    int at = place * WORD;
    uint64_t two = port[at / 32];
    if (at % 32 + WORD > 32) two |= static_cast<uint64_t>(port[at / 32 + 1]) << 32;
    return two >> at % 32 & ((1u << WORD) - 1);
}

enum class Kind { Transform, Product, Idle };

struct Operation {
    Kind kind;
    int prime = 0;
    bool inverse = false;
    int depth = 0, pause = 0;
    uint64_t idle = 0;
    std::vector<uint32_t> left, right, result;
    // Cycles of the first operands, the last operands and the first results.
    uint64_t first = 0, last = 0, answered = 0;
};

std::vector<uint32_t> words(std::istream& in, size_t count) {
    std::vector<uint32_t> read(count);
    for (uint32_t& word : read) in >> word;
    return read;
}

std::vector<Operation> program(const char* path) {
    std::ifstream in(path);
    in >> std::hex;
    std::vector<Operation> operations;
    for (std::string kind; in >> kind;) {
        Operation next{};
        if (kind == "transform") {
            next.kind = Kind::Transform;
            in >> next.prime >> next.inverse;
            next.left = words(in, lanes * lanes);
            next.result = words(in, lanes * lanes);
        } else if (kind == "product") {
            next.kind = Kind::Product;
            in >> next.prime >> next.depth >> next.pause;
            next.left = words(in, rows * next.depth);
            next.right = words(in, next.depth * columns);
            next.result = words(in, rows * columns);
        } else if (kind == "idle") {
            next.kind = Kind::Idle;
            in >> next.idle;
        } else {
            fail("the program has no operation " + kind);
        }
        if (!in) fail(std::string(path) + " ends in an operation");
        operations.push_back(next);
    }
    if (operations.empty()) fail(std::string(path) + " has no operations");
    return operations;
}

// Range of the measured values; `only` fails unless all are equal.
struct Measure {
    const char* name;
    uint64_t least = std::numeric_limits<uint64_t>::max(), most = 0;
    void take(uint64_t value) {
        least = std::min(least, value);
        most = std::max(most, value);
    }
    uint64_t only() const {
        if (least != most)
            fail(std::string(name) + " varies from " + std::to_string(least) + " to " + std::to_string(most));
        return least;
    }
};

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) fail("usage: bench PROGRAM LANES");
    lanes = std::atoi(argv[2]);
    for (bits = 0; 1 << bits < lanes;) bits++;
    rows = lanes / 2;
    columns = 2 * bits + 4;
    std::vector<Operation> operations = program(argv[1]);

    Verilated::randReset(2);  // registers start with random values
    Vsysnttu unit;
    uint64_t cycle = 0;
    auto tick = [&] {
        unit.clk = 1;
        unit.eval();
        unit.clk = 0;
        unit.eval();
        cycle++;
    };
    unit.clk = 0;
    unit.rst = 1;
    unit.array_wanted = unit.transform_start = unit.array_valid = 0;
    tick();
    tick();
    unit.rst = 0;

    std::deque<Operation*> transforms, products;  // in flight
    int vectors = 0, results = 0;                 // received so far, of the first in flight
    size_t current = 0, done = 0, computed = 0;
    uint64_t compared = 0, position = 0, quiet = 0;
    bool paused = false;
    for (const Operation& operation : operations) computed += operation.kind != Kind::Idle;
    while (done < computed) {
        Operation* operation = current < operations.size() ? &operations[current] : nullptr;
        unit.transform_start = unit.array_valid = unit.array_last = 0;
        // Between operations the ports carry arbitrary words.
        for (int i = 0; i < lanes; i++) put(unit.coefficients, i, 0x5a5a5a5 * (i + cycle));
        for (int i = 0; i < rows; i++) put(unit.left, i, 0x3c3c3c3 * (i + cycle));
        for (int i = 0; i < columns; i++) put(unit.right, i, 0x6996699 * (i + cycle));
        unit.transform_prime = unit.array_prime = cycle % 4;
        unit.transform_inverse = cycle / 4 % 2;
        if (operation && operation->kind != Kind::Idle) unit.array_wanted = operation->kind == Kind::Product;
        unit.eval();
        bool over = false;
        if (operation && operation->kind == Kind::Transform && (position > 0 || unit.transform_ready)) {
            if (position == 0) {
                unit.transform_start = 1;
                unit.transform_prime = operation->prime;
                unit.transform_inverse = operation->inverse;
                operation->first = cycle;
                transforms.push_back(operation);
            }
            for (int i = 0; i < lanes; i++) {
                // The unit has values in the order of their exponents; `NttPlan` has them
                // bit-reversed.
                uint32_t number = position + lanes * i;
                put(unit.coefficients, i, operation->left[operation->inverse ? reversed(number, 2 * bits) : number]);
            }
            operation->last = cycle;
            over = ++position == static_cast<uint64_t>(lanes);
        } else if (operation && operation->kind == Kind::Product && unit.array_ready && !paused) {
            if (position == 0) {
                operation->first = cycle;
                products.push_back(operation);
            }
            unit.array_valid = 1;
            unit.array_prime = operation->prime;
            for (int i = 0; i < rows; i++) {
                // Left words are in Montgomery form, as in a prepared database.
                uint64_t word = operation->left[i * operation->depth + position];
                put(unit.left, i, (word << 30) % PRIMES[operation->prime]);
            }
            for (int i = 0; i < columns; i++) put(unit.right, i, operation->right[position * columns + i]);
            operation->last = cycle;
            over = ++position == static_cast<uint64_t>(operation->depth);
            unit.array_last = over;
            paused = !over && operation->pause && position % operation->pause == 0;
        } else if (operation && operation->kind == Kind::Idle) {
            over = ++position == operation->idle;
        } else {
            paused = false;
        }
        unit.eval();

        quiet++;
        if (unit.transformed_valid) {
            if (transforms.empty()) fail("a vector that nobody asked for");
            Operation& of = *transforms.front();
            if (vectors == 0) of.answered = cycle;
            uint32_t index = reversed(vectors, bits);
            if (unit.transformed_index != index) fail("a vector out of order");
            for (int i = 0; i < lanes; i++) {
                uint32_t number = index + lanes * i;
                uint32_t expected = of.result[of.inverse ? number : reversed(number, 2 * bits)];
                if (get(unit.transformed, i) != expected)
                    fail("prime " + std::to_string(of.prime) + (of.inverse ? ", inverse" : ", forward") + ", word " +
                         std::to_string(number) + " in cycle " + std::to_string(cycle));
                compared++;
            }
            if (++vectors == lanes) {
                transforms.pop_front();
                vectors = 0;
                done++;
            }
            quiet = 0;
        }
        if (unit.product_valid) {
            if (products.empty()) fail("a result that nobody asked for");
            Operation& of = *products.front();
            if (results == 0) of.answered = cycle;
            int row = rows - 1 - results;
            if (unit.product_row != row) fail("a row out of order");
            for (int i = 0; i < columns; i++) {
                if (get(unit.product, i) != of.result[row * columns + i])
                    fail("prime " + std::to_string(of.prime) + ", depth " + std::to_string(of.depth) + ", row " +
                         std::to_string(row) + ", column " + std::to_string(i) + " in cycle " + std::to_string(cycle));
                compared++;
            }
            if (++results == rows) {
                products.pop_front();
                results = 0;
                done++;
            }
            quiet = 0;
        }
        if (over) {
            current++;
            position = 0;
        }
        if (quiet > 100000) fail("the unit has stopped");
        tick();
    }

    Measure interval{"the interval of transforms"}, latency{"the latency of transforms"};
    Measure overhead{"the overhead of products"}, drain{"the latency of products"};
    Measure to_array{"the change to the array"}, to_transforms{"the change to transforms"};
    for (size_t i = 0; i < operations.size(); i++) {
        const Operation& of = operations[i];
        if (of.kind == Kind::Transform) latency.take(of.answered - of.first);
        if (of.kind == Kind::Product) drain.take(of.answered - of.last);
        if (i + 1 == operations.size()) break;
        const Operation& next = operations[i + 1];
        if (of.kind == Kind::Transform && next.kind == Kind::Transform) interval.take(next.first - of.first);
        if (of.kind == Kind::Product && next.kind == Kind::Product && of.pause == 0)
            overhead.take(next.first - of.first - of.depth);
        if (of.kind == Kind::Transform && next.kind == Kind::Product) to_array.take(next.first - of.last);
        if (of.kind == Kind::Product && next.kind == Kind::Transform) to_transforms.take(next.first - of.last);
    }
    std::cout << "{\"lanes\": " << lanes << ", \"rows\": " << rows << ", \"columns\": " << columns
              << ", \"operations\": " << done << ", \"words\": " << compared << ", \"cycles\": " << cycle
              << ", \"transform_interval\": " << interval.only() << ", \"transform_latency\": " << latency.only()
              << ", \"product_overhead\": " << overhead.only() << ", \"product_latency\": " << drain.only()
              << ", \"to_array\": " << to_array.only() << ", \"to_transforms\": " << to_transforms.only() << "}"
              << std::endl;
}
