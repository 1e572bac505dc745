//! Optical modules and temperatures.

use super::units::*;

metrics! {
    MODULE_TEMPERATURE, Gauge, Port, "fabric.module.temperature", Celsius, [],
        "Temperature of the pluggable module.";
    MODULE_SUPPLY, Gauge, Port, "fabric.module.supply", Volts, [],
        "Supply voltage of the pluggable module.";
    MODULE_BIAS, Gauge, Port, "fabric.module.bias", Amperes, ["lane"],
        "Laser bias current per lane.";
    MODULE_TX_POWER, Gauge, Port, "fabric.module.transmit.power", Watts, ["lane"],
        "Optical power sent per lane.";
    MODULE_RX_POWER, Gauge, Port, "fabric.module.receive.power", Watts, ["lane"],
        "Optical power received per lane.";
    MODULE_EVENTS, Counter, Port, "fabric.module.events", EVENTS, ["reason"],
        "Events of the module: unplugged, bus stuck, over temperature, bad or shorted cable.";
    SENSOR_TEMPERATURE, Gauge, Device, "fabric.device.temperature", Celsius, ["sensor"],
        "Temperature of the adapter and its modules by hwmon sensor.";
    SENSOR_LIMIT, Gauge, Device, "fabric.device.temperature.limit", Celsius, ["sensor"],
        "Critical temperature by hwmon sensor.";
}
