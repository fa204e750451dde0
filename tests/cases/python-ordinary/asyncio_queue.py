import asyncio

async def main():
    queue = asyncio.Queue()
    for n in range(3):
        queue.put_nowait(n)
    async with asyncio.timeout(5):
        while not queue.empty():
            print(await queue.get())

asyncio.run(main())
