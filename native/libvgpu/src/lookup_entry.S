// dlsym, dlvsym, dlopen and dlmopen as the process sees them.
// Each asks lookup_answer() and then jumps, not calls, to the real one with the arguments as lookup_answer() left them: the real
// one takes its caller from the return address, so RTLD_NEXT and RUNPATH mean what they mean without us.
//   struct lookup_answer { void *jump; void *value; } lookup_answer(void *arguments[3], caller, which)

#if defined(__x86_64__)
    .macro ENTRY name, which
    .globl \name
    .type \name, @function
\name:
    .cfi_startproc
    endbr64
    pushq %rdx
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    movq %rsp, %rdi
    movq 24(%rsp), %rsi
    movl $\which, %edx
    call lookup_answer
    movq %rax, %r11
    movq %rdx, %rax
    popq %rdi
    .cfi_adjust_cfa_offset -8
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdx
    .cfi_adjust_cfa_offset -8
    testq %r11, %r11
    jz 1f
    jmpq *%r11
1:  ret
    .cfi_endproc
    .size \name, . - \name
    .endm
#elif defined(__aarch64__)
    .macro ENTRY name, which
    .globl \name
    .type \name, %function
\name:
    .cfi_startproc
    bti c
    stp x29, x30, [sp, #-48]!
    .cfi_def_cfa_offset 48
    .cfi_offset 29, -48
    .cfi_offset 30, -40
    mov x29, sp
    stp x0, x1, [sp, #16]
    str x2, [sp, #32]
    add x0, sp, #16
    mov x1, x30
    mov w2, #\which
    bl lookup_answer
    mov x16, x0
    mov x17, x1
    ldp x0, x1, [sp, #16]
    ldr x2, [sp, #32]
    ldp x29, x30, [sp], #48
    .cfi_def_cfa_offset 0
    .cfi_restore 29
    .cfi_restore 30
    cbz x16, 1f
    br x16
1:  mov x0, x17
    ret
    .cfi_endproc
    .size \name, . - \name
    .endm
#else
#error "libvgpu knows x86_64 and aarch64"
#endif

    .text
    .hidden lookup_answer
    ENTRY dlsym, 0
    ENTRY dlvsym, 1
    ENTRY dlopen, 2
    ENTRY dlmopen, 3

#if defined(__x86_64__)
    .section .note.GNU-stack, "", @progbits
#else
    .section .note.GNU-stack, "", %progbits
#endif
