// Receives one file over one UDT stream, writes it and answers when all of it is written.
//
//   udt-recv --address 10.0.0.2 --port 9000 --file PATH --mss 1500 --window 16777216 --udp-buffer 4194304 --timeout 60
//
// Prints lines of JSON: {"event":"ready"} when it listens, {"event":"interval"} with the bytes of the last half second,
// and {"event":"done"} with all bytes, and the seconds from the accepted connection to the last of them, or to the end
// of a transfer by time.
#include "common.hpp"

namespace {

constexpr const char* USAGE = "udt-recv --address A --port P --file F --mss N --window N --udp-buffer N --timeout S";
constexpr double INTERVAL_S = 0.5;
// Long enough for the answer over any path of the laboratory.
constexpr int ANSWER_LINGER_S = 5;

// `accept` itself knows no time limit.
void await_caller(const Socket& listener, const Deadline& deadline) {
    const int poll = UDT::epoll_create();
    if (poll < 0) throw udt_failure("no UDT epoll");
    const int wanted = UDT_EPOLL_IN;
    if (UDT::epoll_add_usock(poll, listener.handle(), &wanted) == UDT::ERROR)
        throw udt_failure("UDT cannot watch the listening socket");
    std::set<UDTSOCKET> readable;
    const int count = UDT::epoll_wait(poll, &readable, nullptr, deadline.left_ms());
    if (UDT::epoll_release(poll) == UDT::ERROR) throw udt_failure("UDT kept its epoll");
    if (count <= 0 || readable.count(listener.handle()) == 0)
        throw Failure("no sender called before the time given by --timeout");
}

// Half seconds of the transfer as they pass.
class Intervals {
public:
    void add(double at_s, std::uint64_t bytes) {
        bytes_ += bytes;
        if (at_s - start_s_ < INTERVAL_S) return;
        print_line("{\"event\":\"interval\",\"bytes\":" + std::to_string(bytes_) + ",\"seconds\":" +
                   decimal(at_s - start_s_) + "}");
        start_s_ = at_s;
        bytes_ = 0;
    }

private:
    double start_s_ = 0;
    std::uint64_t bytes_ = 0;
};

void receive_file(int count, char** values) {
    const std::set<std::string> names = {"--address", "--port",       "--file",   "--mss",
                                         "--window",  "--udp-buffer", "--timeout"};
    const Arguments arguments(count, values, names, USAGE);
    const Settings settings(arguments);
    const sockaddr_in address = address_of(arguments);
    const File file(arguments.text("--file"), O_WRONLY | O_CREAT | O_TRUNC);

    const Library library;
    const Deadline deadline(std::chrono::seconds(settings.timeout_s));
    Socket listener(UDT::socket(AF_INET, SOCK_STREAM, 0));
    listener.configure(settings);
    listener.linger_for(ANSWER_LINGER_S); // the accepted socket inherits it
    if (UDT::bind(listener.handle(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == UDT::ERROR)
        throw udt_failure("cannot bind " + arguments.text("--address") + " port " + arguments.text("--port"));
    if (UDT::listen(listener.handle(), 1) == UDT::ERROR) throw udt_failure("cannot listen");
    print_line("{\"event\":\"ready\"}");

    await_caller(listener, deadline);
    sockaddr_in caller{};
    int caller_length = sizeof caller;
    Socket stream(UDT::accept(listener.handle(), reinterpret_cast<sockaddr*>(&caller), &caller_length));
    const auto start = std::chrono::steady_clock::now();

    std::array<char, Header::OCTETS> octets{};
    stream.receive_all(octets.data(), octets.size(), deadline);
    const Header header = Header::decode(octets);
    const Deadline end = header.time_ms == 0 ? deadline : Deadline(std::chrono::milliseconds(header.time_ms));

    std::vector<char> piece(PIECE_BYTES);
    Intervals intervals;
    std::uint64_t left = header.bytes;
    double seconds = 0;
    while (left > 0) {
        std::size_t got = 0;
        const Outcome outcome = stream.receive(piece.data(), std::min<std::uint64_t>(piece.size(), left), got, end);
        if (outcome != Outcome::Moved && header.time_ms != 0) break;
        Socket::demand(outcome);
        file.write_all(piece.data(), got);
        left -= got;
        seconds = seconds_since(start);
        intervals.add(seconds, got);
    }

    if (header.time_ms != 0) seconds = seconds_since(start); // a pause at the end counts, too
    std::string line = "{\"event\":\"done\",\"bytes\":" + std::to_string(header.bytes - left) +
                       ",\"seconds\":" + decimal(seconds);
    UDT::TRACEINFO trace{};
    if (UDT::perfmon(stream.handle(), &trace, false) != UDT::ERROR)
        line += ",\"packets_received\":" + std::to_string(trace.pktRecvTotal) +
                ",\"packets_lost\":" + std::to_string(trace.pktRcvLossTotal);
    else if (header.time_ms == 0) // After a time the sender may have closed first: then there are no counters.
        throw udt_failure("no counters");
    if (header.time_ms == 0) {
        const char answer = 1;
        Socket::demand(stream.send_all(&answer, 1, deadline));
    }
    print_line(line + "}");
}

} // namespace

int main(int count, char** values) {
    return run("udt-recv", count, values, [&] { receive_file(count, values); });
}
