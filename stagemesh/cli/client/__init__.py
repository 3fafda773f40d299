"""The command as a client of the gateway.

options.py      options that all client commands share
connection.py   where the gateway is and how calls are made; errors become exit codes
request.py      options → InferenceRequest
answer.py       final event → the JSON object and the exit code
display.py      answers as they stream, and the stage table
exchange.py     one request from start to end
"""
