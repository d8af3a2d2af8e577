/* Answers ids from a .tflite file through LiteRT's C API alone, as an application without Python
 * does.
 *
 * Usage: run_tflite MODEL SIGNATURE (requests and replies: tensors.h)
 *   MODEL      the .tflite file.
 *   SIGNATURE  such as "ids".
 * Ends with status 0, or with 1 and a line on standard error.
 *
 * The pip package contains the library, without headers:
 *   cc run_tflite.c $LITERT/libLiteRt.so -Wl,-rpath,$LITERT -o run_tflite
 */
#include "tensors.h"

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

static void check(int status, const char *what) {
  if (status != 0) fail("%s failed with LiteRT's status %d.", what, status);
}

static size_t elements(const Layout *layout) {
  size_t count = 1;
  for (unsigned int axis = 0; axis < layout->rank; ++axis) count *= layout->dimensions[axis];
  return count;
}

static Handle buffer_of(const Program *program, const TensorType *type, size_t size) {
  Handle buffer;
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

/* LiteRT doesn't compare dtypes: it would answer int64 ids, and read them as int32. */
static void check_type(const Program *program, size_t input, const Tensor *tensor) {
  Handle declared;
  TensorType type;
  check(LiteRtGetSignatureInputTensorByIndex(program->signature, input, &declared), "An input");
  check(LiteRtGetRankedTensorType(declared, &type), "An input's type");
  if (type.element_type != tensor->type || type.layout.rank != tensor->rank)
    fail("%s must have the dtype %d and %d axes. Received: dtype %d and %d axes.", tensor->name,
         type.element_type, (int)type.layout.rank, (int)tensor->type, (int)tensor->rank);
}

/* Resizes an input to the shape of a tensor, and returns a buffer with its values. */
static Handle filled(const Program *program, size_t input, const Tensor *tensor) {
  check_type(program, input, tensor);
  TensorType type = {(int)tensor->type, {.rank = (unsigned int)tensor->rank}};
  for (int64_t axis = 0; axis < tensor->rank; ++axis)
    type.layout.dimensions[axis] = (int32_t)tensor->sizes[axis];
  check(LiteRtCompiledModelResizeInputTensor(program->compiled, program->index, input,
                                             type.layout.dimensions, (size_t)tensor->rank),
        "Resizing an input");
  Handle buffer = buffer_of(program, &type, (size_t)tensor->bytes);
  void *memory;
  check(LiteRtLockTensorBuffer(buffer, &memory, WRITE), "Writing an input");
  memcpy(memory, tensor->data, (size_t)tensor->bytes);
  check(LiteRtUnlockTensorBuffer(buffer), "Writing an input");
  return buffer;
}

/* Returns a buffer for an output. An axis of any size is as long as the ids' axis. The layout that
 * LiteRT has before a run may be the last run's: it refuses a buffer that is smaller than that, and
 * writes beyond one that is smaller than the output. */
static Handle room_for(const Program *program, size_t output, const Tensor *ids, Layout *layout) {
  Handle tensor;
  TensorType type;
  check(LiteRtGetSignatureOutputTensorByIndex(program->signature, output, &tensor), "An output");
  check(LiteRtGetRankedTensorType(tensor, &type), "An output's type");
  if (type.element_type != FLOAT32) fail("Outputs must be float32.");
  for (unsigned int axis = 0; axis < type.layout.rank; ++axis)
    if (type.layout.dimensions[axis] < 0) type.layout.dimensions[axis] = (int32_t)ids->sizes[axis];
  const size_t last = elements(layout), now = elements(&type.layout);
  *layout = type.layout;
  return buffer_of(program, &type, (last > now ? last : now) * sizeof(float));
}

static void put_output(const Program *program, size_t output, Handle buffer, const Layout *layout) {
  const char *name;
  void *memory;
  int64_t sizes[MAX_RANK];
  check(LiteRtGetSignatureOutputName(program->signature, output, &name), "An output's name");
  check(LiteRtLockTensorBuffer(buffer, &memory, READ), "Reading an output");
  for (unsigned int axis = 0; axis < layout->rank; ++axis) sizes[axis] = layout->dimensions[axis];
  put_header(name, FLOAT32, layout->rank, sizes);
  put_sized(memory, elements(layout) * sizeof(float));
  check(LiteRtUnlockTensorBuffer(buffer), "Reading an output");
}

static void answer(void *program, const Tensor *inputs, int count) {
  const Program *self = program;
  const Tensor *ids = inputs;
  Handle given[MAX_TENSORS] = {NULL}, made[MAX_TENSORS];
  for (int input = 0; input < count; ++input) {
    if (strcmp(inputs[input].name, "input_ids") == 0) ids = &inputs[input];
    const size_t place = input_named(self, inputs[input].name);
    given[place] = filled(self, place, &inputs[input]);
  }
  for (size_t input = 0; input < self->inputs; ++input) /* LiteRT answers without them. */
    if (given[input] == NULL) fail("A request must have all %zu inputs.", self->inputs);
  Layout layouts[MAX_TENSORS];
  check(LiteRtGetCompiledModelOutputTensorLayouts(self->compiled, self->index, self->outputs,
                                                  layouts, true),
        "Fitting outputs to the inputs");
  for (size_t output = 0; output < self->outputs; ++output)
    made[output] = room_for(self, output, ids, &layouts[output]);
  check(LiteRtRunCompiledModel(self->compiled, self->index, self->inputs, given, self->outputs,
                               made),
        "The run");
  put_number((int64_t)self->outputs);
  for (size_t output = 0; output < self->outputs; ++output) {
    put_output(self, output, made[output], &layouts[output]);
    LiteRtDestroyTensorBuffer(made[output]);
  }
  for (size_t input = 0; input < self->inputs; ++input) LiteRtDestroyTensorBuffer(given[input]);
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
  if (argc != 3) fail("Usage: run_tflite MODEL SIGNATURE");
  greet();
  Program program;
  Handle model, options;
  check(LiteRtCreateEnvironment(0, NULL, &program.environment), "LiteRT's environment");
  check(LiteRtCreateModelFromFile(program.environment, argv[1], &model), argv[1]);
  find(model, argv[2], &program);
  check(LiteRtCreateOptions(&options), "LiteRT's options");
  check(LiteRtSetOptionsHardwareAccelerators(options, CPU), "Choosing the CPU");
  check(LiteRtCreateCompiledModel(program.environment, model, options, &program.compiled),
        "Compiling the model");
  serve(&program, answer);
  LiteRtDestroyCompiledModel(program.compiled);
  LiteRtDestroyOptions(options);
  LiteRtDestroyModel(model);
  LiteRtDestroyEnvironment(program.environment);
  return 0;
}
