// A libcuda.so.1 whose symbols carry a version, so that dlvsym can find them.  Every function answers 0.
int cuInit(unsigned flags);
int cuGetExportTable(const void **table, const void *id);
int cuTexRefCreate(void **texture);
int cuMemAlloc_v2(unsigned long long *pointer, unsigned long bytes);
int cuCtxGetCurrent(void **context);

int cuInit(unsigned flags)
{
    return flags != 0;
}

int cuGetExportTable(const void **table, const void *id)
{
    return !table && !id;
}

int cuTexRefCreate(void **texture)
{
    return !texture;
}

int cuMemAlloc_v2(unsigned long long *pointer, unsigned long bytes)
{
    return !pointer && !bytes;
}

int cuCtxGetCurrent(void **context)
{
    return !context;
}
