// Stand-in for the vendor's library: the functions that the host calls, with the types of dpu.h, on
// the emulation's runtime. Tests use it to make the calls of `sdk/vendor.rs`, with the sizes and
// the order of their arguments.
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

#define DPUS 6
#define MRAM (64u << 20)

enum { OK = 0, ALLOCATION = 4, INVALID_SET = 5, UNKNOWN = 27, TRANSFER_SET = 13, FAULT = 20, NO_FILE = 22 };
enum { RANKS, DPU };

struct dpu_t {
    uint8_t *mram;
    void *buffer;
    uint8_t symbols[64];
    bool fails;
};
struct dpu_rank_t {
    uint32_t count;
    struct dpu_t *dpus[DPUS];
};
struct dpu_set_t {
    int kind;
    union {
        struct {
            uint32_t nr_ranks;
            struct dpu_rank_t **ranks;
        } list;
        struct dpu_t *dpu;
    };
};
struct dpu_set_rank_iterator_t {
    struct dpu_set_t *set;
    uint32_t count;
    uint32_t next_idx;
    bool has_next;
    struct dpu_set_t next;
};
struct dpu_set_dpu_iterator_t {
    struct dpu_set_rank_iterator_t rank_iterator;
    uint32_t count;
    uint32_t next_idx;
    bool has_next;
    struct dpu_set_t next;
};

static uint32_t allocated;

int dpu_alloc(uint32_t wanted, const char *profile, struct dpu_set_t *set) {
    uint32_t count = wanted == UINT32_MAX ? DPUS - allocated : wanted;
    if (profile != NULL || count == 0 || count > DPUS - allocated) return ALLOCATION;
    struct dpu_rank_t *rank = calloc(1, sizeof *rank);
    rank->count = count;
    for (uint32_t i = 0; i < count; i++) {
        rank->dpus[i] = calloc(1, sizeof(struct dpu_t));
        rank->dpus[i]->mram = spirea_mram_new(MRAM);
        // The second DPU of the machine always fails.
        rank->dpus[i]->fails = allocated + i == 1;
    }
    allocated += count;
    set->kind = RANKS;
    set->list.nr_ranks = 1;
    set->list.ranks = malloc(sizeof rank);
    set->list.ranks[0] = rank;
    return OK;
}

int dpu_free(struct dpu_set_t set) {
    if (set.kind != RANKS) return INVALID_SET;
    struct dpu_rank_t *rank = set.list.ranks[0];
    allocated -= rank->count;
    for (uint32_t i = 0; i < rank->count; i++) {
        spirea_mram_free(rank->dpus[i]->mram, MRAM);
        free(rank->dpus[i]);
    }
    free(rank);
    free(set.list.ranks);
    return OK;
}

int dpu_load(struct dpu_set_t set, const char *path, void **program) {
    return set.kind == RANKS && program == NULL && strstr(path, "dpxor") != NULL ? OK : NO_FILE;
}

void dpu_set_dpu_iterator_next(struct dpu_set_dpu_iterator_t *iterator) {
    struct dpu_rank_t *rank = iterator->rank_iterator.set->list.ranks[0];
    iterator->count++;
    iterator->has_next = iterator->count < rank->count;
    if (iterator->has_next) iterator->next.dpu = rank->dpus[iterator->count];
}

struct dpu_set_dpu_iterator_t dpu_set_dpu_iterator_from(struct dpu_set_t *set) {
    struct dpu_set_dpu_iterator_t iterator = {.has_next = true};
    iterator.rank_iterator.set = set;
    iterator.next.kind = DPU;
    iterator.next.dpu = set->list.ranks[0]->dpus[0];
    return iterator;
}

int dpu_prepare_xfer(struct dpu_set_t set, void *buffer) {
    if (set.kind != DPU) return INVALID_SET;
    if (set.dpu->buffer != NULL) return TRANSFER_SET;
    set.dpu->buffer = buffer;
    return OK;
}

static uint8_t *place(struct dpu_t *dpu, const char *symbol, uint32_t offset) {
    if (strcmp(symbol, "__sys_used_mram_end") == 0) return dpu->mram + offset;
    return strcmp(symbol, "dpxor_arguments") == 0 ? dpu->symbols + offset : NULL;
}

int dpu_push_xfer(struct dpu_set_t set, int direction, const char *symbol, uint32_t offset, size_t length, int flags) {
    if (set.kind != RANKS || flags != 0) return INVALID_SET;
    struct dpu_rank_t *rank = set.list.ranks[0];
    for (uint32_t i = 0; i < rank->count; i++) {
        struct dpu_t *dpu = rank->dpus[i];
        uint8_t *there = place(dpu, symbol, offset);
        if (there == NULL) return UNKNOWN;
        if (dpu->buffer == NULL) continue;
        memcpy(direction == 0 ? there : dpu->buffer, direction == 0 ? dpu->buffer : there, length);
        dpu->buffer = NULL;
    }
    return OK;
}

int dpu_broadcast_to(struct dpu_set_t set, const char *symbol, uint32_t offset, const void *from, size_t length,
                     int flags) {
    if (set.kind != RANKS || flags != 0) return INVALID_SET;
    struct dpu_rank_t *rank = set.list.ranks[0];
    for (uint32_t i = 0; i < rank->count; i++) {
        uint8_t *there = place(rank->dpus[i], symbol, offset);
        if (there == NULL) return UNKNOWN;
        memcpy(there, from, length);
    }
    return OK;
}

int dpu_copy_from(struct dpu_set_t set, const char *symbol, uint32_t offset, void *to, size_t length) {
    if (set.kind != DPU) return INVALID_SET;
    memcpy(to, place(set.dpu, symbol, offset), length);
    return OK;
}

int dpu_launch(struct dpu_set_t set, int policy) {
    if (set.kind != RANKS || policy != 1) return INVALID_SET;
    struct dpu_rank_t *rank = set.list.ranks[0];
    int outcome = OK;
    for (uint32_t i = 0; i < rank->count; i++) {
        struct dpu_t *dpu = rank->dpus[i];
        struct spirea_run run = {&spirea_dpxor, dpu->mram, MRAM, 16, 512, UINT64_MAX, {0}, {0}};
        if (dpu->fails || !spirea_run_dpu(&run, dpu->symbols)) outcome = FAULT;
    }
    return outcome;
}
