//! Forward error correction. Corrected blocks are normal on fast links; uncorrectable blocks are lost frames.

use super::units::*;

metrics! {
    FEC_CORRECTED_BLOCKS, Counter, Port, "fabric.fec.corrected.blocks", BLOCKS, [],
        "FEC code words corrected.";
    FEC_UNCORRECTABLE_BLOCKS, Counter, Port, "fabric.fec.uncorrectable.blocks", BLOCKS, [],
        "FEC code words that could not be corrected: frames were lost.";
    FEC_CORRECTED_BITS, Counter, Port, "fabric.fec.corrected.bits", BITS, [],
        "Bits corrected by FEC.";
    FEC_CORRECTED_SYMBOLS, Counter, Port, "fabric.fec.corrected.symbols", SYMBOLS, [],
        "Symbols corrected by FEC.";
    FEC_LANE_CORRECTED_BLOCKS, Counter, Port, "fabric.fec.lane.corrected.blocks", BLOCKS, ["lane"],
        "FEC code words corrected per lane.";
    FEC_LANE_UNCORRECTABLE_BLOCKS, Counter, Port, "fabric.fec.lane.uncorrectable.blocks", BLOCKS, ["lane"],
        "FEC code words that could not be corrected, per lane.";
    FEC_LANE_CORRECTED_BITS, Counter, Port, "fabric.fec.lane.corrected.bits", BITS, ["lane"],
        "Bits corrected by FEC per lane.";
    FEC_LANE_CORRECTED_SYMBOLS, Counter, Port, "fabric.fec.lane.corrected.symbols", SYMBOLS, ["lane"],
        "Symbols corrected by FEC per lane.";
    FEC_LANE_ERRORS, Counter, Port, "fabric.fec.lane.errors", ERRORS, ["lane"],
        "Physical errors per lane before FEC.";
    FEC_MODE, Gauge, Port, "fabric.fec.mode", None, ["mode"],
        "1 for the forward error correction in use: `off`, `rs`, `baser`, `llrs`, or `mode_N` by the bit of its link mode.";
}
