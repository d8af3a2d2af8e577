"""Asks TensorFlow Serving for answers, through REST or gRPC; copy this file into your project.

REST needs urllib3, gRPC tensorflow-serving-api.

    with Client("localhost:8500", "reviews") as client:
        for answer in client.answers({"text": text} for text in texts):
            print(answer["label"])

An input is a dict of the signature's inputs, an answer a dict of its outputs, in the inputs' order.
Over REST the server leaves out the name of a single output: it is `output` here.
Inputs are sent in batches. At most `in_flight` batches are on their way, and inputs are read only
as fast as answers are: a slow server slows the reader down instead of filling the memory.
Busy servers, broken connections and halves of answers are retried, until the deadline. A request
that the server refuses (status 400, INVALID_ARGUMENT) raises `Refused` at once.
"""

import itertools
import json
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

Row = dict[str, Any]
BUSY = (429, 502, 503, 504)


class Refused(ValueError):
    """The server can't answer this request, now or later."""


class Unavailable(OSError):
    """The server didn't answer before the deadline, or after all retries."""


class Client:
    """Answers rows from one model.

    Args:
        server: "http://HOST:8501" for REST, or "HOST:8500" for gRPC.
        model: name of the model in the server's models.config.
        signature: one of those in docs/serving.md.
        version: number of a version. Default: the newest.
        deadline: seconds for a batch, retries included.
        retries: number of further attempts, with growing pauses; at most 4.
        batch: number of rows in a request: at most the server's max_batch_size.
        in_flight: number of requests at a time.
    Raises:
        ValueError: a number is out of range.
    """

    def __init__(
        self,
        server: str,
        model: str,
        signature: str = "serving_default",
        version: int | None = None,
        deadline: float = 10.0,
        retries: int = 3,
        batch: int = 16,
        in_flight: int = 4,
    ):
        least = {"deadline": 0.001, "retries": 0, "batch": 1, "in_flight": 1}
        given = {"deadline": deadline, "retries": retries, "batch": batch, "in_flight": in_flight}
        for name, value in given.items():
            most = 4 if name == "retries" else float("inf")
            kind = (int, float) if name == "deadline" else int
            if not isinstance(value, kind) or not least[name] <= value <= most:
                rule = "a number" if name == "deadline" else "a whole number"
                raise ValueError(
                    f"{name} must be {rule}, {least[name]} or more"
                    f"{', at most 4' * (name == 'retries')}. Received: {value!r}."
                )
        transport = _Rest if server.startswith(("http://", "https://")) else _Grpc
        limits = {"deadline": deadline, "retries": retries, "in_flight": in_flight}
        self._transport = transport(server, model, signature, version, **limits)
        self._threads = ThreadPoolExecutor(in_flight)
        self._batch, self._in_flight = batch, in_flight

    def answers(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yields an answer for each row.

        Raises:
            Refused: the server refused a batch, or its rows have different inputs.
            Unavailable: a batch had no answer in time, or one that can't be read.
        """
        stream, waiting = iter(rows), deque[Future[list[Row]]]()
        try:
            while True:
                while len(waiting) < self._in_flight and (
                    batch := list(itertools.islice(stream, self._batch))
                ):
                    waiting.append(self._threads.submit(self._answered, batch))
                if not waiting:
                    return
                yield from waiting.popleft().result()
        finally:
            for each in waiting:
                each.cancel()

    def _answered(self, rows: list[Row]) -> list[Row]:
        for row in rows:
            if not isinstance(row, dict) or not row or row.keys() != rows[0].keys():
                raise Refused(
                    "The rows of a batch must be dicts with the same inputs. Received: "
                    f"{str(row)[:80]} beside {str(rows[0])[:80]}."
                )
        answers = self._transport.call(rows)
        if len(answers) != len(rows):
            raise Unavailable(f"The server sent {len(answers)} answers for {len(rows)} inputs.")
        return answers

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)
        self._transport.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Rest:
    def __init__(self, server: str, model: str, signature: str, version: int | None, **limits: Any):
        import urllib3

        deadline, retries = limits["deadline"], limits["retries"]
        name = f"{model}/versions/{version}" if version else model
        self._url = f"{server.rstrip('/')}/v1/models/{name}:predict"
        self._signature, self._errors = signature, urllib3.exceptions.HTTPError
        retry = urllib3.Retry(
            retries,
            allowed_methods=None,  # A prediction changes nothing, so that POST may be repeated.
            status_forcelist=BUSY,
            backoff_factor=0.1,
            backoff_max=deadline / 8,
            respect_retry_after_header=False,  # It could exceed the deadline.
            raise_on_status=False,
        )
        timeout = urllib3.Timeout(total=deadline / (retries + 2))
        self._pool = urllib3.PoolManager(
            maxsize=limits["in_flight"], retries=retry, timeout=timeout
        )

    def call(self, rows: list[Row]) -> list[Row]:
        try:
            body = json.dumps({"signature_name": self._signature, "instances": rows}).encode()
        except (TypeError, ValueError) as error:
            raise Refused(f"Inputs must be what JSON has. Received: {error}") from error
        headers = {"Content-Type": "application/json"}
        try:
            response = self._pool.request("POST", self._url, body=body, headers=headers)
        except self._errors as error:
            raise Unavailable(f"{self._url} must answer. Received: {error}") from error
        if response.status >= 500 or response.status in BUSY:
            raise Unavailable(f"{self._url} must answer. Received: status {response.status}")
        if response.status != 200:
            reason = response.data.decode("utf-8", "replace")[:500]
            raise Refused(f"{self._url} refused. Received: {reason}")
        try:
            found = response.json()["predictions"]
            return [row if isinstance(row, dict) else {"output": row} for row in found]
        except (ValueError, KeyError, TypeError) as error:
            reason = response.data.decode("utf-8", "replace")[:500]
            raise Unavailable(f"{self._url} must answer in JSON. Received: {reason}") from error

    def close(self) -> None:
        self._pool.clear()


class _Grpc:
    def __init__(self, server: str, model: str, signature: str, version: int | None, **limits: Any):
        import grpc
        import tensorflow as tf
        from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

        policy = {
            "maxAttempts": limits["retries"] + 1,
            "initialBackoff": "0.1s",
            "maxBackoff": "2s",
            "backoffMultiplier": 2,
            "retryableStatusCodes": ["UNAVAILABLE", "RESOURCE_EXHAUSTED"],
        }
        config = {"methodConfig": [{"name": [{}], "retryPolicy": policy}]}
        options: list[tuple[str, Any]] = [("grpc.max_receive_message_length", -1)]
        if limits["retries"]:
            options.append(("grpc.service_config", json.dumps(config)))
        self._channel = grpc.insecure_channel(server, options)
        self._predict = prediction_service_pb2_grpc.PredictionServiceStub(self._channel).Predict
        self._grpc, self._tf, self._deadline = grpc, tf, limits["deadline"]
        self._request = predict_pb2.PredictRequest()
        self._request.model_spec.name = model
        self._request.model_spec.signature_name = signature
        if version:
            self._request.model_spec.version.value = version

    def call(self, rows: list[Row]) -> list[Row]:
        request = type(self._request)()
        request.CopyFrom(self._request)
        for name in rows[0]:
            try:
                column = self._tf.make_tensor_proto([row[name] for row in rows])  # text, or int32
            except (TypeError, ValueError) as error:
                rule = f"The rows' {name} must make a tensor: all of one kind and one length."
                raise Refused(f"{rule} Received: {error}") from error
            request.inputs[name].CopyFrom(column)
        try:
            response = self._predict(request, timeout=self._deadline)
        except self._grpc.RpcError as error:
            codes = self._grpc.StatusCode
            refused = (codes.INVALID_ARGUMENT, codes.NOT_FOUND, codes.FAILED_PRECONDITION)
            kind = Refused if error.code() in refused else Unavailable
            raise kind(f"{error.code().name}: {error.details()}") from error
        found = {name: _values(self._tf, each) for name, each in response.outputs.items()}
        try:
            return [dict(zip(found, row, strict=True)) for row in zip(*found.values(), strict=True)]
        except (TypeError, ValueError) as error:
            raise Unavailable(
                f"Outputs must have a value for each row. Received: {error}"
            ) from error

    def close(self) -> None:
        self._channel.close()


def _values(tf: Any, tensor: Any) -> list[Any]:
    def decoded(value: Any) -> Any:
        if isinstance(value, list):
            return [decoded(each) for each in value]
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else value

    return decoded(tf.make_ndarray(tensor).tolist())
