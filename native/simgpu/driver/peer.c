// Access from one card to another's memory: granted or not, and that is all, since no kernel here touches memory.
#include "peer.h"
#include "context.h"

bool peer_possible(unsigned card, unsigned other)
{
    return card != other && sim_model()->peers;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    CUresult result = check_init();
    if (result != CUDA_SUCCESS)
        return result;
    unsigned card, other;
    if (!can)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device_card(device, &card) || !device_card(peer, &other))
        return CUDA_ERROR_INVALID_DEVICE;
    *can = peer_possible(card, other);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice source, CUdevice target)
{
    CUresult result = check_init();
    if (result != CUDA_SUCCESS)
        return result;
    unsigned card, other;
    if (!value || attribute < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK || source == target)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device_card(source, &card) || !device_card(target, &other))
        return CUDA_ERROR_INVALID_DEVICE;
    *value = attribute != CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK && peer_possible(card, other);
    return CUDA_SUCCESS;
}

static CUresult enter_pair(CUcontext peer, struct context **context, const struct context **other)
{
    CUresult result = enter(context);
    if (result != CUDA_SUCCESS)
        return result;
    *other = context_of(peer);
    return *other ? CUDA_SUCCESS : leave(CUDA_ERROR_INVALID_CONTEXT);
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    struct context *context;
    const struct context *other;
    CUresult result = flags ? CUDA_ERROR_INVALID_VALUE : enter_pair(peer, &context, &other);
    if (result != CUDA_SUCCESS)
        return result;
    if (!peer_possible(context->card, other->card))
        return leave(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    if (context->peers >> other->card & 1)
        return leave(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    context->peers |= 1u << other->card;
    return leave(CUDA_SUCCESS);
}

CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
    struct context *context;
    const struct context *other;
    CUresult result = enter_pair(peer, &context, &other);
    if (result != CUDA_SUCCESS)
        return result;
    if (!(context->peers >> other->card & 1))
        return leave(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    context->peers &= ~(1u << other->card);
    return leave(CUDA_SUCCESS);
}
