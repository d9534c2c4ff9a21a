/*
 * hpc_board.h: the interface between a compiled submission and hpc-board. Plain C, for C++, CUDA and HIP.
 *
 * Include this file and define custom_kernel. PyTorch's tensors are in memory of the device that the board runs on,
 * NumPy's arrays always in host memory. The outputs are allocated already and hold garbage: write every element.
 */
#ifndef HPC_BOARD_H
#define HPC_BOARD_H

#include <stdint.h>

#define HPC_BOARD_ABI 1
#define HPC_MAX_DIMS 8

#if defined(__GNUC__)
#define HPC_EXPORT __attribute__((visibility("default")))
#else
#define HPC_EXPORT
#endif

/* Element types, by PyTorch's names. FLOAT4_E2M1FN_X2 has two numbers in each element. */
typedef enum hpc_dtype {
    HPC_BOOL = 1,
    HPC_UINT8 = 2,
    HPC_INT8 = 3,
    HPC_UINT16 = 4,
    HPC_INT16 = 5,
    HPC_UINT32 = 6,
    HPC_INT32 = 7,
    HPC_UINT64 = 8,
    HPC_INT64 = 9,
    HPC_FLOAT16 = 10,
    HPC_BFLOAT16 = 11,
    HPC_FLOAT32 = 12,
    HPC_FLOAT64 = 13,
    HPC_COMPLEX64 = 14,
    HPC_COMPLEX128 = 15,
    HPC_FLOAT8_E4M3FN = 16,
    HPC_FLOAT8_E4M3FNUZ = 17,
    HPC_FLOAT8_E5M2 = 18,
    HPC_FLOAT8_E5M2FNUZ = 19,
    HPC_FLOAT8_E8M0FNU = 20,
    HPC_FLOAT4_E2M1FN_X2 = 21
} hpc_dtype;

/* A tensor: shape and stride have ndim entries, strides count elements, data points at element 0, 0, ... */
typedef struct hpc_tensor {
    void *data;
    int64_t shape[HPC_MAX_DIMS];
    int64_t stride[HPC_MAX_DIMS];
    int32_t ndim;
    int32_t dtype; /* an hpc_dtype */
} hpc_tensor;

/*
 * The device and stream of a call. Work on a GPU belongs on `stream`: work left on another one at return is late,
 * unless that stream was made without the flag NonBlocking, so that `stream` waits for it.
 */
typedef struct hpc_context {
    void *stream;            /* the cudaStream_t or hipStream_t of the call: null, the default one; null on a CPU */
    int32_t device;          /* the GPU's index; -1 on a CPU */
    int32_t abi;             /* HPC_BOARD_ABI of the harness */
    void *workspace;         /* device memory of workspace_bytes, aligned to 256 bytes, with garbage in it; or null */
    int64_t workspace_bytes; /* the size that hpc_workspace_bytes returned */
    const double *reals;     /* the floating-point arguments of the task, in their order */
    int32_t n_reals;
    int32_t reserved;
    void *state; /* the value that hpc_prepare left; null without it */
} hpc_context;

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The submission, which has to define it. Inputs, outputs and params (whole numbers and truth values) come in the order
 * in which the task's data and answer have them, nested ones where they stand. Return 0, or a number of your own that
 * ends the call with the verdict `exception` and is shown.
 */
HPC_EXPORT int custom_kernel(const hpc_tensor *in, int n_in, hpc_tensor *out, int n_out, const int64_t *params,
                             int n_params, const hpc_context *ctx);

/*
 * Optional: how much device memory a call with these arguments wants as its workspace. It is asked once for the same
 * forms and numbers, outside of the timed part: the tensors are shown without their memory (`data` is null), and the
 * context has no workspace yet.
 */
HPC_EXPORT int64_t hpc_workspace_bytes(const hpc_tensor *in, int n_in, const hpc_tensor *out, int n_out,
                                       const int64_t *params, int n_params, const hpc_context *ctx);

/*
 * Optional, for tasks with inputs to prepare: called once in each process for each case, outside of the timed part,
 * with the fixed inputs, their numbers in params and ctx->reals. The calls of that case get the other inputs, and
 * ctx->state. The memory of the fixed inputs stays until the next hpc_prepare returns. At its begin *state is null, or
 * what the previous one left: reuse or free that. Return 0, or a number that ends the run with the verdict `exception`.
 */
HPC_EXPORT int hpc_prepare(const hpc_tensor *fixed, int n_fixed, const int64_t *params, int n_params,
                           const hpc_context *ctx, void **state);

#ifdef __cplusplus
}
#endif

#endif
