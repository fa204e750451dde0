import asyncio

async def work(n):
    await asyncio.sleep(0)
    return n * n

async def main():
    print(await asyncio.gather(*(work(n) for n in range(4))))

asyncio.run(main())
