/* A small SteamVR client library (vrclient.so) for tests: the real libopenvr_api loads it and asks it for interfaces.
 *
 * It implements the class IVRClientCore (version 3, by its table of virtual functions) and, of IVRSystem, the functions
 * that mm_ros calls, by the table of function pointers "FnTable:IVRSystem_023". All other entries are null. The place
 * of each function in the table is given at compile time by TABLE_<name>, from the header in the Python package.
 * The state is a file that the test writes: see struct world. It is mapped, so that changes are seen at once. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#define DEVICES 64
#define EVENTS 16

struct device {
    float matrix[3][4], velocity[3], turning[3];
    int32_t result;
    uint8_t valid, connected, pad[2];
    int32_t kind, hand;
    uint64_t pressed;
    char serial[32], controller[32];
};

struct world {
    int32_t init_error, universe; /* universe, seconds: what the last caller asked for */
    float seconds;
    uint32_t events_written, events_read, quits, inits, cleanups;
    int32_t application;
    uint32_t events[EVENTS];
    struct device devices[DEVICES];
};

static struct world *world;

static bool open_world(void)
{
    if (world == NULL) {
        const char *path = getenv("MM_ROS_TEST_VR_WORLD");
        int file = path ? open(path, O_RDWR) : -1;
        if (file < 0)
            return false;
        void *memory = mmap(NULL, sizeof *world, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        close(file);
        if (memory == MAP_FAILED)
            return false;
        world = memory;
    }
    return true;
}

/* IVRSystem */

struct pose { /* TrackedDevicePose_t */
    float matrix[3][4], velocity[3], turning[3];
    int32_t result;
    bool valid, connected;
};

struct event { /* VREvent_t: 4-byte packed on Linux; only the first fields are filled */
    uint32_t type, device;
    float age;
};

static void poses(int32_t universe, float seconds, struct pose *out, uint32_t count)
{
    world->universe = universe;
    world->seconds = seconds;
    for (uint32_t i = 0; i < count && i < DEVICES; i++) {
        const struct device *d = &world->devices[i];
        memcpy(out[i].matrix, d->matrix, sizeof d->matrix);
        memcpy(out[i].velocity, d->velocity, sizeof d->velocity);
        memcpy(out[i].turning, d->turning, sizeof d->turning);
        out[i].result = d->result;
        out[i].valid = d->valid;
        out[i].connected = d->connected;
    }
}

static int32_t device_class(uint32_t i) { return i < DEVICES ? world->devices[i].kind : 0; }

static int32_t hand_of(uint32_t i) { return i < DEVICES ? world->devices[i].hand : 0; }

struct __attribute__((packed)) buttons { /* VRControllerState_t: 4-byte packed on Linux */
    uint32_t packet;
    uint64_t pressed, touched;
    float axes[5][2];
};

static bool controller_state(uint32_t i, struct buttons *out, uint32_t size)
{
    if (i >= DEVICES || world->devices[i].kind == 0 || size != sizeof *out)
        return false;
    memset(out, 0, sizeof *out);
    out->pressed = world->devices[i].pressed;
    return true;
}

static uint32_t text_property(uint32_t i, int32_t property, char *out, uint32_t size, int32_t *error)
{
    enum { SUCCESS = 0, TOO_SMALL = 3, UNKNOWN = 4, INVALID_DEVICE = 5, SERIAL = 1002, CONTROLLER = 7000 };
    const char *text = NULL;
    int32_t code = SUCCESS;
    uint32_t needed = 0;
    if (i >= DEVICES || world->devices[i].kind == 0)
        code = INVALID_DEVICE;
    else if (property == SERIAL)
        text = world->devices[i].serial;
    else if (property == CONTROLLER)
        text = world->devices[i].controller;
    if (text != NULL && text[0] != '\0') {
        needed = (uint32_t)strlen(text) + 1;
        if (size < needed)
            code = TOO_SMALL;
        else
            memcpy(out, text, needed);
    } else if (code == SUCCESS) {
        code = UNKNOWN;
    }
    if (error != NULL)
        *error = code;
    return needed;
}

static bool next_event(struct event *out, uint32_t size)
{
    if (world->events_read == world->events_written || size < sizeof *out)
        return false;
    memset(out, 0, size);
    out->type = world->events[world->events_read++ % EVENTS];
    return true;
}

static void quitting(void) { world->quits++; }

static void *const table[] = {
    [TABLE_getDeviceToAbsoluteTrackingPose] = (void *)poses,
    [TABLE_getControllerRoleForTrackedDeviceIndex] = (void *)hand_of,
    [TABLE_getTrackedDeviceClass] = (void *)device_class,
    [TABLE_getStringTrackedDeviceProperty] = (void *)text_property,
    [TABLE_getControllerState] = (void *)controller_state,
    [TABLE_pollNextEvent] = (void *)next_event,
    [TABLE_acknowledgeQuit_Exiting] = (void *)quitting,
    [TABLE_LENGTH] = NULL,
};

/* IVRClientCore_003; the first argument of each is the object */

struct core;

static int32_t core_init(struct core *self, int32_t application, const char *info)
{
    (void)self, (void)info;
    if (!open_world())
        return 108; /* VRInitError_Init_HmdNotFound */
    world->application = application;
    world->inits++;
    return world->init_error;
}

static void core_cleanup(struct core *self)
{
    (void)self;
    if (world != NULL) {
        world->cleanups++;
        munmap(world, sizeof *world);
        world = NULL;
    }
}

static int32_t core_valid(struct core *self, const char *name)
{
    (void)self;
    return strcmp(name, SYSTEM) == 0 ? 0 : 105; /* VRInitError_Init_InterfaceNotFound */
}

static void *core_interface(struct core *self, const char *name, int32_t *error)
{
    (void)self;
    bool known = strcmp(name, "FnTable:" SYSTEM) == 0;
    if (error != NULL)
        *error = known ? 0 : 105;
    return known ? (void *)table : NULL;
}

static bool core_present(struct core *self) { return (void)self, open_world(); }

static const char *core_text(struct core *self, int32_t error) { return (void)self, (void)error, "error of the test"; }

struct core {
    void *const *functions;
};

static void *const core_functions[] = {
    (void *)core_init, (void *)core_cleanup, (void *)core_valid, (void *)core_interface, (void *)core_present,
    (void *)core_text, (void *)core_text,
};
static struct core core = { core_functions };

__attribute__((visibility("default"))) void *VRClientCoreFactory(const char *name, int *code)
{
    bool known = strcmp(name, "IVRClientCore_003") == 0;
    if (code != NULL)
        *code = known ? 0 : 105;
    return known ? (void *)&core : NULL;
}
