"""The OpenAI-compatible HTTP front of the gateway.

protocol   connections: time and size of request heads, lingering bodies       (uvicorn + httptools)
app        routes, the error boundary, metrics                                  (Starlette)
headers, body, fields, chat_request, completion_request, …   HTTP → InferenceRequest   (pure functions)
generation, feed, sse                                         one request: submit → events → reply
websocket                                                     the events of one request over a WebSocket
shape_chat, shape_completion, chunks, extras, failures        Final, Event → OpenAI objects (pure functions)
server     HttpServer: start, drain, stop inside the gateway's event loop
"""
