// Sends one file over one UDT stream, whole or for a time.
//
//   udt-send --address 10.0.0.2 --port 9000 --file PATH --mss 1500 --window 16777216 --udp-buffer 4194304 --timeout 60
//            [--time-ms 10000]
//
// Prints one line of JSON: bytes given to UDT, seconds from the call of connect to the receiver's answer (or to the end
// of the time), and UDT's own counters.
#include "common.hpp"

namespace {

constexpr const char* USAGE =
    "udt-send --address A --port P --file F --mss N --window N --udp-buffer N --timeout S [--time-ms T]";

void send_file(int count, char** values) {
    const std::set<std::string> names = {"--address", "--port",       "--file",    "--mss",
                                         "--window",  "--udp-buffer", "--timeout", "--time-ms"};
    const Arguments arguments(count, values, names, USAGE);
    const Settings settings(arguments);
    const sockaddr_in address = address_of(arguments);
    const File file(arguments.text("--file"), O_RDONLY);
    const Header header{file.size(), arguments.has("--time-ms") ? arguments.number("--time-ms", 1, TIME_MS_MAX) : 0};
    if (header.bytes > FILE_BYTES_MAX) throw Failure("the file is larger than the 1 TiB that the receiver takes");

    const Library library;
    const Deadline deadline(std::chrono::seconds(settings.timeout_s));
    Socket stream(UDT::socket(AF_INET, SOCK_STREAM, 0));
    stream.configure(settings);
    stream.linger_for(0); // The receiver's answer says that all has arrived; after a time the rest is not wanted.

    const auto start = std::chrono::steady_clock::now();
    if (UDT::connect(stream.handle(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == UDT::ERROR)
        throw udt_failure("no connection to the receiver");
    const Deadline end =
        header.time_ms == 0 ? deadline : Deadline(std::chrono::milliseconds(header.time_ms));

    const auto octets = header.encode();
    Socket::demand(stream.send_all(octets.data(), octets.size(), deadline));

    // UDT cuts each call's bytes into packets by itself: whole packets, or every piece would end in a short one.
    const std::size_t payload = static_cast<std::size_t>(settings.mss - HEADER_BYTES);
    std::vector<char> piece(PIECE_BYTES / payload * payload);
    std::uint64_t left = header.bytes;
    while (left > 0) {
        const std::size_t got = file.read(piece.data(), std::min<std::uint64_t>(piece.size(), left));
        const Outcome outcome = stream.send_all(piece.data(), got, end);
        if (outcome != Outcome::Moved && header.time_ms != 0) break;
        Socket::demand(outcome);
        left -= got;
    }
    if (header.time_ms == 0) {
        char answer = 0;
        stream.receive_all(&answer, 1, deadline);
    }
    const double seconds = seconds_since(start);

    std::string line = "{\"event\":\"done\",\"bytes\":" + std::to_string(header.bytes - left) +
                       ",\"seconds\":" + decimal(seconds);
    UDT::TRACEINFO trace{};
    if (UDT::perfmon(stream.handle(), &trace, false) != UDT::ERROR)
        line += ",\"packets_sent\":" + std::to_string(trace.pktSentTotal) +
                ",\"packets_resent\":" + std::to_string(trace.pktRetransTotal) + ",\"rtt_ms\":" +
                decimal(trace.msRTT) + ",\"bandwidth_estimate_mbps\":" + decimal(trace.mbpsBandwidth);
    else if (header.time_ms == 0) // After a time the receiver may have closed first: then there are no counters.
        throw udt_failure("no counters");
    print_line(line + "}");
}

} // namespace

int main(int count, char** values) {
    return run("udt-send", count, values, [&] { send_file(count, values); });
}
