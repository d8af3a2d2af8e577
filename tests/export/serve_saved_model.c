/* Answers requests with a SavedModel through TensorFlow's C API alone, as TF Serving's loader would.
 *
 * Usage: serve_saved_model LIBRARY SAVED_MODEL OUTPUT... (requests and replies: tensors.h)
 *   LIBRARY      shared libraries of operators to load first, with commas between them, such as
 *                tensorflow-text's _fast_sentencepiece_tokenizer.so; "-" for none.
 *   SAVED_MODEL  a folder with a graph tagged "serve".
 *   OUTPUT       tensors to fetch, as `name` or `name:index`; inputs are named likewise.
 * Ends with status 0, or with 1 and a line on standard error.
 *
 * The pip package contains the headers and the libraries:
 *   cc -I$TF/include serve_saved_model.c $TF/libtensorflow_cc.so.2 \
 *      $TF/libtensorflow_framework.so.2 -Wl,-rpath,$TF -o serve_saved_model
 */
#include "tensors.h"

#include "tensorflow/c/c_api.h"
#include "tensorflow/c/tf_tstring.h"

typedef struct {
  TF_Graph *graph;
  TF_Session *session;
  TF_Status *status;
  int outputs;
  TF_Output fetches[MAX_TENSORS];
  char **names;
} Program;

static void check(const TF_Status *status, const char *what) {
  if (TF_GetCode(status) != TF_OK) fail("%s: %s", what, TF_Message(status));
}

/* `name` or `name:index`: a SavedModel's signature names its tensors in the second form. */
static TF_Output tensor_of(TF_Graph *graph, const char *name) {
  char operation[sizeof((Tensor *)0)->name];
  snprintf(operation, sizeof operation, "%s", name);
  char *colon = strrchr(operation, ':');
  TF_Output output = {NULL, 0};
  if (colon != NULL) {
    *colon = '\0';
    output.index = atoi(colon + 1);
  }
  output.oper = TF_GraphOperationByName(graph, operation);
  if (output.oper == NULL || output.index < 0 || output.index >= TF_OperationNumOutputs(output.oper))
    fail("The graph must have the requested tensor. Received: %s", name);
  return output;
}

static TF_Tensor *tensor_from(const Tensor *given) {
  int64_t count = 1;
  for (int64_t axis = 0; axis < given->rank; ++axis) count *= given->sizes[axis];
  const bool is_text = given->type == TF_STRING;
  const size_t size = is_text ? (size_t)count * sizeof(TF_TString) : (size_t)given->bytes;
  TF_Tensor *tensor =
      TF_AllocateTensor((TF_DataType)given->type, given->sizes, (int)given->rank, size);
  const char *source = given->data;
  for (int64_t index = 0; is_text && index < count; ++index) {
    TF_TString *text = (TF_TString *)TF_TensorData(tensor) + index;
    int64_t length;
    memcpy(&length, source, sizeof length);
    TF_StringInit(text);
    TF_StringCopy(text, source + sizeof length, (size_t)length);
    source += sizeof length + (size_t)length;
  }
  if (!is_text && size != 0) memcpy(TF_TensorData(tensor), source, size);
  return tensor;
}

static void put_tensor(const char *name, const TF_Tensor *tensor) {
  int64_t sizes[MAX_RANK], bytes = (int64_t)TF_TensorByteSize(tensor);
  const int rank = TF_NumDims(tensor);
  for (int axis = 0; axis < rank; ++axis) sizes[axis] = TF_Dim(tensor, axis);
  put_header(name, TF_TensorType(tensor), rank, sizes);
  if (TF_TensorType(tensor) != TF_STRING) {
    put_sized(TF_TensorData(tensor), (size_t)bytes);
    return;
  }
  const TF_TString *texts = TF_TensorData(tensor);
  const int64_t count = TF_TensorElementCount(tensor);
  bytes = 0;
  for (int64_t index = 0; index < count; ++index)
    bytes += (int64_t)sizeof bytes + (int64_t)TF_StringGetSize(&texts[index]);
  put_number(bytes);
  for (int64_t index = 0; index < count; ++index)
    put_sized(TF_StringGetDataPointer(&texts[index]), TF_StringGetSize(&texts[index]));
}

static void answer(void *program, const Tensor *inputs, int count) {
  const Program *self = program;
  TF_Output named[MAX_TENSORS] = {{0}};
  TF_Tensor *given[MAX_TENSORS] = {NULL}, *made[MAX_TENSORS];
  for (int input = 0; input < count; ++input) named[input] = tensor_of(self->graph, inputs[input].name);
  for (int input = 0; input < count; ++input) given[input] = tensor_from(&inputs[input]);
  TF_SessionRun(self->session, NULL, named, given, count, self->fetches, made, self->outputs, NULL,
                0, NULL, self->status);
  for (int input = 0; input < count; ++input) TF_DeleteTensor(given[input]);
  check(self->status, "The run");
  put_number(self->outputs);
  for (int output = 0; output < self->outputs; ++output) {
    put_tensor(self->names[output], made[output]);
    TF_DeleteTensor(made[output]);
  }
}

static TF_Session *load(char *libraries, const char *folder, TF_Graph *graph, TF_Status *status) {
  for (char *library; (library = strsep(&libraries, ",")) != NULL;) {
    if (strcmp(library, "-") == 0) continue;
    TF_LoadLibrary(library, status); /* stays loaded until the process ends */
    check(status, library);
  }
  const char *tags[] = {"serve"};
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_Session *session =
      TF_LoadSessionFromSavedModel(options, NULL, folder, tags, 1, graph, NULL, status);
  check(status, folder);
  TF_DeleteSessionOptions(options);
  return session;
}

int main(int argc, char **argv) {
  if (argc < 4 || argc > 3 + MAX_TENSORS)
    fail("Usage: serve_saved_model LIBRARY SAVED_MODEL OUTPUT...");
  greet();
  Program program = {.graph = TF_NewGraph(), .status = TF_NewStatus()};
  program.outputs = argc - 3;
  program.names = argv + 3;
  program.session = load(argv[1], argv[2], program.graph, program.status);
  for (int output = 0; output < program.outputs; ++output)
    program.fetches[output] = tensor_of(program.graph, program.names[output]);
  serve(&program, answer);
  TF_CloseSession(program.session, program.status);
  TF_DeleteSession(program.session, program.status);
  TF_DeleteGraph(program.graph);
  TF_DeleteStatus(program.status);
  return 0;
}
