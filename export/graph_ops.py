"""Which operations a served graph may hold, and from which TensorFlow Serving on.

A server that lacks one operation refuses the whole model ("Op type not registered"),
hours after the export. So every operation must be on a list of those known to be in
the images; it is gathered from the graph's nodes and from its function library.
"""

from collections.abc import Collection, Iterable
from pathlib import Path

from common.command_line import CommandError

OLDEST_TF_SERVING = "2.17"
NEWEST_TF_SERVING = "2.20"

TEXT_OPS = {
    # TensorFlow Text 2.12.1, which the images from 2.17 to 2.19 link
    "CaseFoldUTF8": "2.17",
    "NormalizeUTF8": "2.17",
    "NormalizeUTF8WithOffsetsMap": "2.17",
    "RegexSplitWithOffsets": "2.17",
    "WordpieceTokenizeWithOffsets": "2.17",
    "FastBertNormalize": "2.17",
    "FastWordpieceTokenizeWithOffsets": "2.17",
    # TensorFlow Text 2.20
    "TFText>RoundRobinTrim": "2.20",
    "TFText>Utf8Binarize": "2.20",
}
"""Operations of TensorFlow Text and the first image that has them."""

UNWANTED_OPS = frozenset({"TFText>RoundRobinTrim", "TFText>Utf8Binarize"})
"""They would shut out images before 2.20, and nothing here needs them."""

# Operations of TensorFlow itself that have been in it since long before 2.17: what
# Keras layers, string processing, tf.io.parse_example and saving emit.
_CORE_OPS_TEXT = """
    Abs Add AddN AddV2 All Any ArgMax ArgMin AsString Assert AssignVariableOp
    AvgPool BatchMatMul BatchMatMulV2 BatchMatMulV3 BatchToSpaceND BiasAdd
    BroadcastArgs BroadcastTo Bucketize Cast Ceil CheckNumerics ClipByValue Concat
    ConcatV2 Const Conv2D Cos Cumsum DepthToSpace DepthwiseConv2dNative
    DisableCopyOnRead Div DivNoNan Einsum Elu EnsureShape Equal Erf Erfc Exp
    ExpandDims Expm1 Fill Floor FloorDiv FloorMod FusedBatchNormV3 Gather GatherNd
    GatherV2 Greater GreaterEqual HashTableV2 Identity IdentityN If LeakyRelu Less
    LessEqual Log Log1p LogSoftmax LogicalAnd LogicalNot LogicalOr LookupTableFindV2
    LookupTableImportV2 LookupTableSizeV2 MatMul MatrixBandPart Max MaxPool Maximum
    Mean MergeV2Checkpoints Min Minimum Mod Mul Neg NoOp NotEqual OneHot OnesLike
    Pack Pad PadV2 ParseExampleV2 PartitionedCall Placeholder PlaceholderWithDefault
    Pow Prod RaggedGather RaggedRange RaggedTensorToTensor RaggedTensorToVariant
    Range Rank ReadVariableOp RealDiv Reciprocal ReduceJoin RegexFullMatch
    RegexReplace Relu Relu6 Reshape ResourceGather RestoreV2 ReverseV2 Rsqrt SaveV2
    ScatterNd Select SelectV2 Selu Shape ShapeN ShardedFilename Sigmoid Sign Sin
    Size Slice Softmax Softplus Softsign SpaceToBatchND SparseToDense Split SplitV
    Sqrt Square SquaredDifference Squeeze StatefulPartitionedCall StatelessIf
    StatelessWhile StaticRegexFullMatch StaticRegexReplace StopGradient StridedSlice
    StringFormat StringJoin StringLength StringLower StringSplitV2 StringStrip
    StringUpper Sub Substr Sum Tanh TensorListFromTensor TensorListGetItem
    TensorListReserve TensorListSetItem TensorListStack Tile Transpose
    UnicodeTranscode Unpack UnsortedSegmentSum VarHandleOp VarIsInitializedOp Where
    While ZerosLike
    DenseBincount TopKV2 UnicodeDecode UnicodeEncode UnsortedSegmentMax
    UnsortedSegmentMin UpperBound
"""
CORE_OPS = frozenset(_CORE_OPS_TEXT.split())


class OperationError(CommandError):
    """The graph holds an operation that a supported server may lack."""


def operations(version_directory: Path) -> list[str]:
    """Returns the names of all operations of a SavedModel, sorted.

    Those of its function library are among them: signatures are functions.
    """
    from tensorflow.core.protobuf import saved_model_pb2

    content = (version_directory / "saved_model.pb").read_bytes()
    names = set()
    for meta_graph in saved_model_pb2.SavedModel.FromString(content).meta_graphs:
        graph = meta_graph.graph_def
        functions = {function.signature.name for function in graph.library.function}
        names |= {node.op for node in graph.node}
        for function in graph.library.function:
            names |= {node.op for node in function.node_def}
        # Calls to functions of the library itself.
        names -= functions
    return sorted(names)


def check_operations(names: Iterable[str], allowed: Collection[str] = ()) -> str:
    """Checks operations against the list.

    Args:
        names: those of the graph.
        allowed: more of them, which the caller knows to be in the server.

    Returns:
        The oldest TensorFlow Serving, such as ``"2.17"``, that has them all (those in
        `allowed` aside).

    Raises:
        OperationError: naming what is not on the list.
    """
    names = set(names) - set(allowed)
    known = (CORE_OPS | TEXT_OPS.keys()) - UNWANTED_OPS
    if unknown := sorted(names - known):
        raise OperationError(
            f"the graph holds operations that are not known to be in TensorFlow "
            f"Serving {OLDEST_TF_SERVING} to {NEWEST_TF_SERVING}: "
            f"{', '.join(unknown)}. Expected only those listed in "
            "export/graph_ops.py (--allow-op NAME lets one pass)"
        )
    return max(
        (TEXT_OPS[name] for name in names if name in TEXT_OPS),
        default=OLDEST_TF_SERVING,
    )
