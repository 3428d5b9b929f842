// One TCP download over 802.11n or ac in ns-3: what `script/ns3-speed` holds our simulator
// against. Server -- wire -- AP -- station, the rates of our `textbook` preset.
//
// Prints Mbit/s of application bytes.

#include <iostream>
#include <string>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/mobility-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/wifi-module.h"

using namespace ns3;

int main(int argc, char *argv[]) {
  std::string phyName = "n";
  double seconds = 5;
  double delayMs = 40;
  uint32_t segmentsPerAck = 2;
  CommandLine cmd(__FILE__);
  cmd.AddValue("phy", "n or ac", phyName);
  cmd.AddValue("seconds", "simulated", seconds);
  cmd.AddValue("delay", "one way on the wire, milliseconds", delayMs);
  cmd.AddValue("l", "segments per acknowledgment", segmentsPerAck);
  cmd.Parse(argc, argv);
  const bool ac = phyName == "ac";

  Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
  Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(segmentsPerAck));
  Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(64 << 20));
  Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(64 << 20));
  Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpCubic::GetTypeId()));
  Config::SetDefault("ns3::WifiMacQueue::MaxSize", StringValue("1000p"));

  NodeContainer nodes;
  nodes.Create(3);
  Ptr<Node> server = nodes.Get(0), ap = nodes.Get(1), station = nodes.Get(2);

  PointToPointHelper wire;
  wire.SetDeviceAttribute("DataRate", StringValue("10Gbps"));
  wire.SetChannelAttribute("Delay", TimeValue(MicroSeconds(uint64_t(delayMs * 1000))));
  NetDeviceContainer wired = wire.Install(server, ap);

  YansWifiPhyHelper phy;
  phy.SetChannel(YansWifiChannelHelper::Default().Create());
  phy.Set("ChannelSettings", StringValue(ac ? "{0, 80, BAND_5GHZ, 0}" : "{0, 40, BAND_5GHZ, 0}"));
  phy.Set("Antennas", UintegerValue(2));
  phy.Set("MaxSupportedTxSpatialStreams", UintegerValue(2));
  phy.Set("MaxSupportedRxSpatialStreams", UintegerValue(2));
  WifiHelper wifi;
  wifi.SetStandard(ac ? WIFI_STANDARD_80211ac : WIFI_STANDARD_80211n);
  wifi.SetRemoteStationManager("ns3::ConstantRateWifiManager", "DataMode",
                               StringValue(ac ? "VhtMcs9" : "HtMcs15"), "ControlMode",
                               StringValue("OfdmRate24Mbps"));
  const uint32_t aggregate = ac ? 1048575 : 65535;
  WifiMacHelper mac;
  Ssid ssid("tack");
  mac.SetType("ns3::StaWifiMac", "Ssid", SsidValue(ssid), "BE_MaxAmpduSize",
              UintegerValue(aggregate));
  NetDeviceContainer air = wifi.Install(phy, mac, station);
  mac.SetType("ns3::ApWifiMac", "Ssid", SsidValue(ssid), "BE_MaxAmpduSize",
              UintegerValue(aggregate));
  air.Add(wifi.Install(phy, mac, ap));
  for (uint32_t i = 0; i < air.GetN(); i++) {
    DynamicCast<WifiNetDevice>(air.Get(i))->GetHtConfiguration()->SetShortGuardIntervalSupported(
        true);
  }

  MobilityHelper mobility;
  mobility.SetMobilityModel("ns3::ConstantPositionMobilityModel");
  mobility.Install(nodes);

  InternetStackHelper().Install(nodes);
  Ipv4AddressHelper addresses;
  addresses.SetBase("10.0.1.0", "255.255.255.0");
  addresses.Assign(wired);
  addresses.SetBase("10.0.2.0", "255.255.255.0");
  Ipv4InterfaceContainer wireless = addresses.Assign(air);
  Ipv4GlobalRoutingHelper::PopulateRoutingTables();

  const uint16_t port = 5000;
  PacketSinkHelper sinkHelper("ns3::TcpSocketFactory",
                              InetSocketAddress(Ipv4Address::GetAny(), port));
  ApplicationContainer sink = sinkHelper.Install(station);
  BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(wireless.GetAddress(0), port));
  bulk.SetAttribute("SendSize", UintegerValue(65536));
  bulk.Install(server).Start(MilliSeconds(500));

  Simulator::Stop(Seconds(seconds));
  Simulator::Run();
  const double bytes = DynamicCast<PacketSink>(sink.Get(0))->GetTotalRx();
  std::cout << bytes * 8e-6 / seconds << " Mbit/s of application bytes" << std::endl;
  Simulator::Destroy();
  return 0;
}
