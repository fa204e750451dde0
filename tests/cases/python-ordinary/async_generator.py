import asyncio

async def numbers():
    for n in range(3):
        yield n

async def main():
    print([n async for n in numbers() if n])

asyncio.run(main())
