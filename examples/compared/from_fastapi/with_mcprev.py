"""Tools that call a FastAPI app of the same process, with mcprev."""

from fastapi import FastAPI

import mcprev

web = FastAPI()


@web.get("/double", operation_id="double")
def double(number: int) -> int:
    return number * 2


mcprev.App.from_fastapi(web).run_stdio()
