"""The kubelet's two protocols.  The `_pb2` files are generated; a test holds them to the .proto files beside them:

python -m grpc_tools.protoc -I . --python_out=. --pyi_out=. --grpc_python_out=. cluster/deviceplugin/protos/*.proto
"""
