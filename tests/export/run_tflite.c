/* Answers ids from a .tflite file through LiteRT's C API alone, as an application without Python
 * does.
 *
 * Usage: run_tflite MODEL SIGNATURE INPUTS < rows
 *   MODEL      the .tflite file.
 *   SIGNATURE  such as "ids".
 *   INPUTS     the names of its inputs, with commas between them.
 *   rows       on standard input, lines with the ids of each input in turn, with spaces between ids
 *              and "|" between inputs. Lines may have different numbers of ids.
 * Prints for each line its outputs, a line each: the name, then the values with %.9g, which a
 * float32 survives.
 * Ends with status 0, or with 1 and a line on standard error.
 *
 * The pip package contains the library, without headers:
 *   cc run_tflite.c $LITERT/libLiteRt.so -Wl,-rpath,$LITERT -o run_tflite
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TENSORS 8
#define MAX_RANK 8

/* Declarations of LiteRT 2.1.6 and later: litert/c/litert_*.h. Handles are pointers. */
typedef void *Handle;
typedef struct {
  unsigned int rank : 7;
  unsigned int has_strides : 1;
  int32_t dimensions[MAX_RANK];
  uint32_t strides[MAX_RANK];
} Layout;
typedef struct {
  int element_type;
  Layout layout;
} TensorType;
enum { FLOAT32 = 1, INT32 = 2, CPU = 1, HOST_MEMORY = 1, READ = 0, WRITE = 1 };

int LiteRtCreateEnvironment(int count, const void *options, Handle *environment);
int LiteRtCreateModelFromFile(Handle environment, const char *path, Handle *model);
int LiteRtGetNumModelSignatures(Handle model, size_t *count);
int LiteRtGetModelSignature(Handle model, size_t index, Handle *signature);
int LiteRtGetSignatureKey(Handle signature, const char **key);
int LiteRtGetNumSignatureInputs(Handle signature, size_t *count);
int LiteRtGetSignatureInputName(Handle signature, size_t index, const char **name);
int LiteRtGetSignatureInputTensorByIndex(Handle signature, size_t index, Handle *tensor);
int LiteRtGetNumSignatureOutputs(Handle signature, size_t *count);
int LiteRtGetSignatureOutputName(Handle signature, size_t index, const char **name);
int LiteRtGetSignatureOutputTensorByIndex(Handle signature, size_t index, Handle *tensor);
int LiteRtGetRankedTensorType(Handle tensor, TensorType *type);
int LiteRtCreateOptions(Handle *options);
int LiteRtSetOptionsHardwareAccelerators(Handle options, int accelerators);
int LiteRtCreateCompiledModel(Handle environment, Handle model, Handle options, Handle *compiled);
int LiteRtCompiledModelResizeInputTensor(Handle compiled, size_t signature, size_t input,
                                         const int *dimensions, size_t rank);
int LiteRtGetCompiledModelOutputTensorLayouts(Handle compiled, size_t signature, size_t count,
                                              Layout *layouts, bool update);
int LiteRtCreateManagedTensorBuffer(Handle environment, int memory, const TensorType *type,
                                    size_t size, Handle *buffer);
int LiteRtLockTensorBuffer(Handle buffer, void **address, int mode);
int LiteRtUnlockTensorBuffer(Handle buffer);
int LiteRtRunCompiledModel(Handle compiled, size_t signature, size_t inputs, Handle *given,
                           size_t outputs, Handle *made);
void LiteRtDestroyTensorBuffer(Handle buffer);
void LiteRtDestroyCompiledModel(Handle compiled);
void LiteRtDestroyOptions(Handle options);
void LiteRtDestroyModel(Handle model);
void LiteRtDestroyEnvironment(Handle environment);

typedef struct {
  Handle environment, compiled, signature;
  size_t index, inputs, outputs;
} Program;

static void fail(const char *format, ...) {
  va_list values;
  va_start(values, format);
  fputs("run_tflite: ", stderr);
  vfprintf(stderr, format, values);
  fputc('\n', stderr);
  va_end(values);
  exit(1);
}

static void check(int status, const char *what) {
  if (status != 0) fail("%s failed with LiteRT's status %d.", what, status);
}

static size_t elements(const Layout *layout) {
  size_t count = 1;
  for (unsigned int axis = 0; axis < layout->rank; ++axis) count *= layout->dimensions[axis];
  return count;
}

static Handle buffer_of(const Program *program, const TensorType *type) {
  Handle buffer;
  const size_t size = elements(&type->layout) * 4; /* float32 or int32 */
  check(LiteRtCreateManagedTensorBuffer(program->environment, HOST_MEMORY, type, size, &buffer),
        "A buffer");
  return buffer;
}

static size_t input_named(const Program *program, const char *name) {
  for (size_t input = 0; input < program->inputs; ++input) {
    const char *found;
    check(LiteRtGetSignatureInputName(program->signature, input, &found), "An input's name");
    if (strcmp(found, name) == 0) return input;
  }
  fail("The signature must have the named inputs. Received: %s", name);
  return 0;
}

/* Resizes an input to the number of ids in a text, and returns a buffer with them. */
static Handle filled(const Program *program, size_t input, char *text) {
  int32_t *ids = malloc(strlen(text) * sizeof *ids + sizeof *ids);
  size_t count = 0;
  char *end = text;
  for (long id = strtol(text, &end, 10); end != text; id = strtol(text, &end, 10)) {
    ids[count++] = (int32_t)id;
    text = end;
  }
  const int shape[] = {1, (int)count};
  check(LiteRtCompiledModelResizeInputTensor(program->compiled, program->index, input, shape, 2),
        "Resizing an input");
  const TensorType type = {INT32, {.rank = 2, .dimensions = {1, (int32_t)count}}};
  Handle buffer = buffer_of(program, &type);
  void *memory;
  check(LiteRtLockTensorBuffer(buffer, &memory, WRITE), "Writing an input");
  memcpy(memory, ids, count * sizeof *ids);
  check(LiteRtUnlockTensorBuffer(buffer), "Writing an input");
  free(ids);
  return buffer;
}

static void print(const Program *program, size_t output, Handle buffer, size_t count) {
  const char *name;
  void *memory;
  check(LiteRtGetSignatureOutputName(program->signature, output, &name), "An output's name");
  check(LiteRtLockTensorBuffer(buffer, &memory, READ), "Reading an output");
  fputs(name, stdout);
  for (size_t index = 0; index < count; ++index) printf(" %.9g", ((const float *)memory)[index]);
  putchar('\n');
  check(LiteRtUnlockTensorBuffer(buffer), "Reading an output");
}

/* Runs a line and prints its outputs. `order` has the index of each named input. */
static void answer(const Program *program, const size_t *order, char *line) {
  Handle given[MAX_TENSORS], made[MAX_TENSORS];
  for (size_t input = 0; input < program->inputs; ++input) {
    char *text = strsep(&line, "|");
    if (text == NULL) fail("A line must have the ids of %zu inputs.", program->inputs);
    given[order[input]] = filled(program, order[input], text);
  }
  TensorType types[MAX_TENSORS];
  Layout layouts[MAX_TENSORS];
  check(LiteRtGetCompiledModelOutputTensorLayouts(program->compiled, program->index,
                                                  program->outputs, layouts, true),
        "Fitting outputs to the inputs");
  for (size_t output = 0; output < program->outputs; ++output) {
    Handle tensor;
    check(LiteRtGetSignatureOutputTensorByIndex(program->signature, output, &tensor), "An output");
    check(LiteRtGetRankedTensorType(tensor, &types[output]), "An output's type");
    if (types[output].element_type != FLOAT32) fail("Outputs must be float32.");
    types[output].layout = layouts[output];
    made[output] = buffer_of(program, &types[output]);
  }
  check(LiteRtRunCompiledModel(program->compiled, program->index, program->inputs, given,
                               program->outputs, made),
        "The run");
  for (size_t output = 0; output < program->outputs; ++output) {
    print(program, output, made[output], elements(&layouts[output]));
    LiteRtDestroyTensorBuffer(made[output]);
  }
  for (size_t input = 0; input < program->inputs; ++input) LiteRtDestroyTensorBuffer(given[input]);
}

static void find(Handle model, const char *wanted, Program *program) {
  size_t count;
  const char *key;
  check(LiteRtGetNumModelSignatures(model, &count), "Counting signatures");
  for (program->index = 0; program->index < count; ++program->index) {
    check(LiteRtGetModelSignature(model, program->index, &program->signature), "A signature");
    check(LiteRtGetSignatureKey(program->signature, &key), "A signature's name");
    if (strcmp(key, wanted) == 0) break;
  }
  if (program->index == count) fail("The file must have the signature. Received: %s", wanted);
  check(LiteRtGetNumSignatureInputs(program->signature, &program->inputs), "Counting inputs");
  check(LiteRtGetNumSignatureOutputs(program->signature, &program->outputs), "Counting outputs");
  if (program->inputs > MAX_TENSORS || program->outputs > MAX_TENSORS) fail("Too many tensors.");
}

int main(int argc, char **argv) {
  if (argc != 4) fail("Usage: run_tflite MODEL SIGNATURE INPUTS < rows");
  Program program;
  Handle model, options;
  check(LiteRtCreateEnvironment(0, NULL, &program.environment), "LiteRT's environment");
  check(LiteRtCreateModelFromFile(program.environment, argv[1], &model), argv[1]);
  find(model, argv[2], &program);
  check(LiteRtCreateOptions(&options), "LiteRT's options");
  check(LiteRtSetOptionsHardwareAccelerators(options, CPU), "Choosing the CPU");
  check(LiteRtCreateCompiledModel(program.environment, model, options, &program.compiled),
        "Compiling the model");

  size_t order[MAX_TENSORS], named = 0;
  for (char *name; named < program.inputs && (name = strsep(&argv[3], ",")) != NULL; ++named)
    order[named] = input_named(&program, name);
  if (named != program.inputs || argv[3] != NULL)
    fail("The inputs must be %zu names.", program.inputs);

  char *line = NULL;
  size_t capacity = 0;
  while (getline(&line, &capacity, stdin) >= 0) answer(&program, order, line);

  free(line);
  LiteRtDestroyCompiledModel(program.compiled);
  LiteRtDestroyOptions(options);
  LiteRtDestroyModel(model);
  LiteRtDestroyEnvironment(program.environment);
  return 0;
}
