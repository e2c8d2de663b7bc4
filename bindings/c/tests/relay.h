/* Something between a client and its daemon that cuts their connections, as a NAT that restarts does. Its threads end
   with the process. */

#include <arpa/inet.h>
#include <assert.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* Connections at once: two clients with their streams, and those that still end. */
#define RELAY_CONNECTIONS 256
/* How long a test waits for what must come, milliseconds: only one that fails waits so long. */
#define PATIENCE_MS 60000

struct relay_connection {
    int sockets[2];
    int threads;
};

static pthread_mutex_t relay_lock = PTHREAD_MUTEX_INITIALIZER;
static struct relay_connection relay_open[RELAY_CONNECTIONS];
static int relay_refuses;
static struct sockaddr_in relay_to;

/* One direction of a connection. */
struct relay_way {
    struct relay_connection *of;
    int from, to;
};

static void *relay_carry(void *given)
{
    struct relay_way way = *(struct relay_way *)given;
    static _Thread_local unsigned char room[65536];
    ssize_t count;
    free(given);
    while ((count = recv(way.from, room, sizeof room, 0)) > 0) {
        ssize_t at = 0, sent = 0;
        while (at < count && (sent = send(way.to, room + at, (size_t)(count - at), MSG_NOSIGNAL)) > 0)
            at += sent;
        if (sent <= 0)
            break;
    }
    shutdown(way.to, SHUT_WR);
    pthread_mutex_lock(&relay_lock);
    if (--way.of->threads == 0) {
        close(way.of->sockets[0]);
        close(way.of->sockets[1]);
    }
    pthread_mutex_unlock(&relay_lock);
    return NULL;
}

static void relay_start_way(struct relay_connection *of, int from, int to)
{
    struct relay_way *way = malloc(sizeof *way);
    pthread_t thread;
    assert(way != NULL);
    *way = (struct relay_way){of, from, to};
    of->threads++;
    assert(pthread_create(&thread, NULL, relay_carry, way) == 0);
    pthread_detach(thread);
}

static void *relay_accept(void *listener)
{
    for (;;) {
        int near = accept((int)(intptr_t)listener, NULL, NULL), far = socket(AF_INET, SOCK_STREAM, 0);
        struct relay_connection *free_one = relay_open;
        assert(near >= 0 && far >= 0);
        pthread_mutex_lock(&relay_lock);
        while (free_one->threads > 0)
            assert(++free_one < relay_open + RELAY_CONNECTIONS);
        if (relay_refuses || connect(far, (struct sockaddr *)&relay_to, sizeof relay_to) != 0) {
            close(near);
            close(far);
        } else {
            free_one->sockets[0] = near;
            free_one->sockets[1] = far;
            relay_start_way(free_one, near, far);
            relay_start_way(free_one, far, near);
        }
        pthread_mutex_unlock(&relay_lock);
    }
    return NULL;
}

/* Begins to listen for what is to go to this port of 127.0.0.1; its own port. */
static int relay_start(int port)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof own;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    pthread_t thread;
    relay_to = own;
    relay_to.sin_port = htons((uint16_t)port);
    assert(listener >= 0 && bind(listener, (struct sockaddr *)&own, sizeof own) == 0 && listen(listener, 64) == 0);
    assert(getsockname(listener, (struct sockaddr *)&own, &length) == 0);
    assert(pthread_create(&thread, NULL, relay_accept, (void *)(intptr_t)listener) == 0);
    pthread_detach(thread);
    return ntohs(own.sin_port);
}

/* Says whether new connections are refused from now on. */
static void relay_refuse(int refuses)
{
    pthread_mutex_lock(&relay_lock);
    relay_refuses = refuses;
    pthread_mutex_unlock(&relay_lock);
}

/* Ends all connections that there are; waits until there is one. */
static void relay_cut(void)
{
    int cut = 0;
    for (int waited = 0; cut == 0; waited++) {
        assert(waited < PATIENCE_MS);
        pthread_mutex_lock(&relay_lock);
        for (struct relay_connection *it = relay_open; it < relay_open + RELAY_CONNECTIONS; it++)
            if (it->threads > 0) {
                shutdown(it->sockets[0], SHUT_RDWR);
                shutdown(it->sockets[1], SHUT_RDWR);
                cut++;
            }
        pthread_mutex_unlock(&relay_lock);
        if (cut == 0)
            poll(NULL, 0, 1);
    }
}
