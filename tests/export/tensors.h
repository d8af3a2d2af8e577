/* Requests on standard input and replies on standard output, as c_program.py writes and reads them.
 *
 * Numbers are int64, of the machine's byte order. A request is the number of tensors, and for each:
 *   the length of its name, and the name;
 *   the runtime's number of its dtype, its rank, and its sizes;
 *   the number of its bytes, and these; a string is its length and its bytes.
 * A reply has the same form, or is -1, the length of an error's message, and the message. An empty
 * reply and an empty request come first.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TENSORS 8
#define MAX_RANK 8

typedef struct {
  char name[128];
  int64_t type, rank, sizes[MAX_RANK], bytes;
  char *data;
} Tensor;

static jmp_buf next_request;
static bool is_answering = false;

static void put(const void *data, size_t size) { fwrite(data, 1, size, stdout); }

static void put_number(int64_t number) { put(&number, sizeof number); }

static void put_sized(const char *data, size_t size) {
  put_number((int64_t)size);
  put(data, size);
}

/* Replies with an error, or ends the program where it answers no request. */
static void fail(const char *format, ...) {
  char message[4096];
  va_list values;
  va_start(values, format);
  vsnprintf(message, sizeof message, format, values);
  va_end(values);
  if (is_answering) {
    put_number(-1);
    put_sized(message, strlen(message));
    longjmp(next_request, 1);
  }
  fprintf(stderr, "%s\n", message);
  exit(1);
}

static void *grown(void *memory, size_t size) {
  memory = realloc(memory, size);
  if (memory == NULL) fail("Out of memory at %zu bytes.", size);
  return memory;
}

static void get(void *data, int64_t size) {
  if (size != 0 && fread(data, (size_t)size, 1, stdin) != 1) {
    fputs("A request must be whole.\n", stderr);
    exit(1);
  }
}

static int64_t get_number(int64_t most) {
  int64_t number;
  get(&number, sizeof number);
  if (number < 0 || number > most) {
    fprintf(stderr, "A number must be at most %lld. Received: %lld\n", (long long)most,
            (long long)number);
    exit(1);
  }
  return number;
}

static void get_tensor(Tensor *tensor) {
  const int64_t length = get_number(sizeof tensor->name - 1);
  get(tensor->name, length);
  tensor->name[length] = '\0';
  tensor->type = get_number(INT64_MAX);
  tensor->rank = get_number(MAX_RANK);
  for (int64_t axis = 0; axis < tensor->rank; ++axis) tensor->sizes[axis] = get_number(INT64_MAX);
  tensor->bytes = get_number(INT64_MAX);
  tensor->data = grown(NULL, (size_t)tensor->bytes + 1);
  get(tensor->data, tensor->bytes);
}

static void put_header(const char *name, int64_t type, int64_t rank, const int64_t *sizes) {
  put_sized(name, strlen(name));
  put_number(type);
  put_number(rank);
  for (int64_t axis = 0; axis < rank; ++axis) put_number(sizes[axis]);
}

/* Sends an empty reply and waits for an empty request: now the program's memory can be measured. */
static void greet(void) {
  put_number(0);
  fflush(stdout);
  get_number(0);
}

/* Answers all requests. */
static void serve(void *program, void (*answer)(void *program, const Tensor *inputs, int count)) {
  Tensor inputs[MAX_TENSORS];
  int64_t count;
  while (fread(&count, sizeof count, 1, stdin) == 1) {
    if (count < 0 || count > MAX_TENSORS) fail("A request must have at most %d tensors.", MAX_TENSORS);
    for (int64_t input = 0; input < count; ++input) get_tensor(&inputs[input]);
    is_answering = true;
    if (setjmp(next_request) == 0) answer(program, inputs, (int)count);
    is_answering = false;
    fflush(stdout);
    for (int64_t input = 0; input < count; ++input) free(inputs[input].data);
  }
}
