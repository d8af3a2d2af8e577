/* Answers texts or ids from a SavedModel through TensorFlow's C API alone, as TF Serving's loader
 * would.
 *
 * Usage: serve_saved_model LIBRARY SAVED_MODEL INPUTS OUTPUT... < rows
 *   LIBRARY      shared libraries of operators to load first, with commas between them, such as
 *                tensorflow-text's _fast_sentencepiece_tokenizer.so; "-" for none.
 *   SAVED_MODEL  a folder with a graph tagged "serve".
 *   INPUTS       up to four tensors, as `name` or `name:index`, with commas between them: they all
 *                take texts, string [B], or all ids, int32 [B, T].
 *   OUTPUT       tensors to fetch, [B, ...], float32, int32 or string, likewise.
 *   rows         on standard input, B lines: the texts in UTF-8, or the ids of each input in turn,
 *                with spaces between ids and "|" between inputs.
 * Prints B lines: the values of each output in turn, with tabs between them, and floats with %.9g,
 * which a float32 survives.
 * Ends with status 0, or with 1 and a line on standard error.
 *
 * The pip package contains the headers and the libraries:
 *   cc -I$TF/include serve_saved_model.c $TF/libtensorflow_cc.so.2 \
 *      $TF/libtensorflow_framework.so.2 -Wl,-rpath,$TF -o serve_saved_model
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "tensorflow/c/c_api.h"
#include "tensorflow/c/tf_tstring.h"

#define MAX_INPUTS 4

static void fail(const char *format, ...) {
  va_list values;
  va_start(values, format);
  fputs("serve_saved_model: ", stderr);
  vfprintf(stderr, format, values);
  fputc('\n', stderr);
  va_end(values);
  exit(1);
}

static void check(const TF_Status *status, const char *what) {
  if (TF_GetCode(status) != TF_OK) fail("%s: %s", what, TF_Message(status));
}

static void *grown(void *memory, size_t size) {
  memory = realloc(memory, size);
  if (memory == NULL) fail("Out of memory at %zu bytes.", size);
  return memory;
}

/* `name` or `name:index`: a SavedModel's signature names its tensors in the second form. */
static TF_Output tensor_of(TF_Graph *graph, const char *name) {
  char *operation = strdup(name);
  char *colon = strrchr(operation, ':');
  TF_Output output = {NULL, 0};
  if (colon != NULL) {
    *colon = '\0';
    output.index = atoi(colon + 1);
  }
  output.oper = TF_GraphOperationByName(graph, operation);
  if (output.oper == NULL || output.index < 0 || output.index >= TF_OperationNumOutputs(output.oper))
    fail("The graph must have the requested tensor. Received: %s", name);
  free(operation);
  return output;
}

/* Reads one row a line, "text" or "text|text", into string tensors [B]; the last has the rest. */
static void read_texts(FILE *stream, TF_Tensor **tensors, int inputs) {
  TF_TString *texts[MAX_INPUTS] = {NULL};
  char *line = NULL;
  size_t capacity = 0;
  int64_t count = 0;
  for (ssize_t length; (length = getline(&line, &capacity, stream)) >= 0; ++count) {
    if (length > 0 && line[length - 1] == '\n') --length;
    const char *part = line, *end = line + length;
    for (int i = 0; i < inputs; ++i) {
      const char *bar = i + 1 < inputs ? memchr(part, '|', (size_t)(end - part)) : end;
      if (bar == NULL) fail("A line must have %d texts. Received: %d.", inputs, i + 1);
      texts[i] = grown(texts[i], (size_t)(count + 1) * sizeof *texts[i]);
      TF_StringInit(&texts[i][count]);
      TF_StringCopy(&texts[i][count], part, (size_t)(bar - part));
      part = bar + 1;
    }
  }
  free(line);
  if (count == 0) fail("Standard input must have at least one line. Received none.");
  for (int i = 0; i < inputs; ++i) {
    const size_t size = (size_t)count * sizeof *texts[i];
    tensors[i] = TF_AllocateTensor(TF_STRING, &count, 1, size);
    /* A TF_TString owns its bytes and may be moved bit by bit; now the tensor is the owner. */
    memcpy(TF_TensorData(tensors[i]), texts[i], size);
    free(texts[i]);
  }
}

/* Reads one row a line, "1 2 3|1 1 1", into int32 tensors [B, T]; T may differ between inputs. */
static void read_ids(FILE *stream, TF_Tensor **tensors, int inputs) {
  int32_t *ids[MAX_INPUTS] = {NULL};
  int64_t counts[MAX_INPUTS] = {0}, batch = 0;
  char *line = NULL;
  size_t capacity = 0;
  for (; getline(&line, &capacity, stream) >= 0; ++batch) {
    char *rest = line;
    for (int i = 0; i < inputs; ++i) {
      char *part = strsep(&rest, "|"), *end = part;
      if (part == NULL) fail("A line must have the ids of %d inputs. Received: %d.", inputs, i);
      for (long id = strtol(part, &end, 10); end != part; id = strtol(part, &end, 10)) {
        ids[i] = grown(ids[i], (size_t)(counts[i] + 1) * sizeof **ids);
        ids[i][counts[i]++] = (int32_t)id;
        part = end;
      }
    }
  }
  free(line);
  if (batch == 0) fail("Standard input must have at least one line. Received none.");
  for (int i = 0; i < inputs; ++i) {
    const int64_t shape[] = {batch, counts[i] / batch};
    if (counts[i] % batch != 0) fail("Rows must have as many ids each.");
    const size_t size = (size_t)counts[i] * sizeof **ids;
    tensors[i] = TF_AllocateTensor(TF_INT32, shape, 2, size);
    if (size != 0) memcpy(TF_TensorData(tensors[i]), ids[i], size);
    free(ids[i]);
  }
}

static void check_shape(const TF_Tensor *output, const char *name, int64_t batch) {
  const TF_DataType type = TF_TensorType(output);
  if (type != TF_FLOAT && type != TF_INT32 && type != TF_STRING)
    fail("An output must be float32, int32 or string. Received: %s", name);
  if (TF_NumDims(output) < 1 || TF_Dim(output, 0) != batch)
    fail("An output must have one row a text. Received: %s", name);
}

static void print_value(const TF_Tensor *tensor, int64_t index) {
  const void *data = TF_TensorData(tensor);
  if (TF_TensorType(tensor) == TF_STRING) {
    const TF_TString *text = (const TF_TString *)data + index;
    fwrite(TF_StringGetDataPointer(text), 1, TF_StringGetSize(text), stdout);
  } else if (TF_TensorType(tensor) == TF_INT32) {
    printf("%d", ((const int32_t *)data)[index]);
  } else {
    printf("%.9g", ((const float *)data)[index]);
  }
}

static void print_rows(TF_Tensor **outputs, int count, int64_t batch) {
  for (int64_t row = 0; row < batch; ++row) {
    const char *separator = "";
    for (int i = 0; i < count; ++i) {
      const int64_t width = TF_TensorElementCount(outputs[i]) / batch;
      for (int64_t column = 0; column < width; ++column) {
        fputs(separator, stdout);
        print_value(outputs[i], row * width + column);
        separator = "\t";
      }
    }
    putchar('\n');
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
  if (argc < 5) fail("Usage: serve_saved_model LIBRARY SAVED_MODEL INPUTS OUTPUT... < rows");
  const int count = argc - 4;
  TF_Status *status = TF_NewStatus();
  TF_Graph *graph = TF_NewGraph();
  TF_Session *session = load(argv[1], argv[2], graph, status);

  TF_Output inputs[MAX_INPUTS];
  TF_Tensor *rows[MAX_INPUTS];
  int given = 0;
  for (char *name; given < MAX_INPUTS && (name = strsep(&argv[3], ",")) != NULL;)
    inputs[given++] = tensor_of(graph, name);
  TF_Output *fetches = grown(NULL, (size_t)count * sizeof *fetches);
  TF_Tensor **outputs = grown(NULL, (size_t)count * sizeof *outputs);
  for (int i = 0; i < count; ++i) fetches[i] = tensor_of(graph, argv[4 + i]);

  if (TF_OperationOutputType(inputs[0]) == TF_STRING)
    read_texts(stdin, rows, given);
  else
    read_ids(stdin, rows, given);
  const int64_t batch = TF_Dim(rows[0], 0);
  TF_SessionRun(session, NULL, inputs, rows, given, fetches, outputs, count, NULL, 0, NULL, status);
  check(status, "The run");
  for (int i = 0; i < count; ++i) check_shape(outputs[i], argv[4 + i], batch);
  print_rows(outputs, count, batch);

  for (int i = 0; i < count; ++i) TF_DeleteTensor(outputs[i]);
  for (int i = 0; i < given; ++i) TF_DeleteTensor(rows[i]);
  free(outputs);
  free(fetches);
  TF_CloseSession(session, status);
  TF_DeleteSession(session, status);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
  return 0;
}
