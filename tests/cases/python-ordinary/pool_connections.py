import asyncio


class Pool:
    def create_connection(self):
        return "one"

    async def run(self):
        return self.create_connection()


print(asyncio.run(Pool().run()))
