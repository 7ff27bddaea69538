"""The API: stores, their logs, quotes, predictions, tokens."""

from datetime import date, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response

from pilu.client.messages import (
    LedgerPage,
    NewToken,
    People,
    Person,
    Predictions,
    Presence,
    Quote,
    RowsToPredict,
    Started,
    Stores,
    StoreState,
    TokenMade,
    Tokens,
    TokenState,
)
from pilu.exceptions import LedgerMismatch
from pilu.service import queue, tokens
from pilu.service.actions import note_action, note_now
from pilu.service.asking import time_of
from pilu.service.database import Found
from pilu.service.identifiers import hash_name
from pilu.service.problems import Refused
from pilu.service.request_routes import StoreName, answer
from pilu.service.running import Allowed, Service
from pilu.service.tokens import Caller
from pilu.store.log import proof_of_growth, proof_of_place
from pilu.store.merkle import Head

_HeadText = Annotated[
    str | None, Query(max_length=100, description="A head of the log that you noted earlier.")
]
_HIDDEN = ("subject", "subjects")  # of entries of the first formats


def store_routes(service: Service) -> APIRouter:
    """Routes of stores."""
    routes = APIRouter(tags=["stores"])
    database = service.database
    looking = Annotated[Caller, Depends(Allowed(service, "officer", "auditor"))]
    officer = Annotated[Caller, Depends(Allowed(service, "officer"))]
    predicting = Annotated[Caller, Depends(Allowed(service, "officer", "predictor"))]

    @routes.get("/v1/stores", response_model=Stores)
    async def list_stores(caller: looking) -> Response:
        """All stores."""
        found = await service.in_thread(
            lambda: [state_of_store(service, name) for name in service.stores.names()]
        )
        return answer(Stores(stores=found))

    @routes.get("/v1/stores/{store}", response_model=StoreState)
    async def read_store(store: StoreName, caller: looking) -> Response:
        """A store: its size, its log, who waits."""
        return answer(await service.in_thread(state_of_store, service, store))

    @routes.post("/v1/stores/{store}/quote", response_model=Quote)
    async def quote(store: StoreName, people: People, caller: officer) -> Response:
        """A dry run: what forgetting people would cost and change."""
        subjects = list(dict.fromkeys(people.subjects))
        path = str(service.stores.path(store))
        await service.in_thread(note_now, database, caller, "asked for a quote", store)
        return answer(
            Quote(**await service.job({"what": "quote", "store": path, "subjects": subjects}))
        )

    @routes.post("/v1/stores/{store}/access", response_model=Presence)
    async def look_up(store: StoreName, person: Person, caller: officer) -> Response:
        """Whether a person is in the model."""
        return answer(await service.in_thread(presence, service, store, person.subject, caller))

    @routes.post("/v1/stores/{store}/run", status_code=202, response_model=Started)
    async def run(store: StoreName, caller: officer) -> Response:
        """Carry out now what waits for the night."""
        service.stores.path(store)

        def hurry() -> int:
            with database.writing() as tx:
                return queue.hurry(tx, store, caller)

        return answer(Started(n_due=await service.in_thread(hurry)), 202)

    @routes.get("/v1/stores/{store}/ledger", response_model=LedgerPage)
    async def read_ledger(
        store: StoreName,
        caller: looking,
        since: _HeadText = None,
        last: Annotated[int, Query(ge=1, le=10_000)] = 50,
    ) -> Response:
        """The head and the last entries of the log; whether it has only grown since a head."""

        def read() -> LedgerPage:
            log = service.stores.open(store).log()
            if since is not None:
                log.growth_from(_head(since))
            entries = [
                {"place": e.place, **{k: v for k, v in e.record.items() if k not in _HIDDEN}}
                for e in log.entries[-last:]
            ]
            grown = None if since is None else True
            return LedgerPage(head=str(log.head), entries=entries, grown=grown)

        return answer(await service.in_thread(read))

    @routes.get(
        "/v1/stores/{store}/ledger/proof",
        responses={200: {"content": {"application/json": {"schema": {"type": "object"}}}}},
    )
    async def prove(
        store: StoreName,
        caller: looking,
        since: _HeadText = None,
        entry: Annotated[int | None, Query(ge=0, le=2**31)] = None,
    ) -> dict[str, Any]:
        """A proof for `pilu verify`: that the log has only grown, or that it has an entry."""
        if (since is None) == (entry is None):
            raise Refused(422, "exactly one of since and entry must be given.")

        def read() -> dict[str, Any]:
            log = service.stores.open(store).log()
            if since is not None:
                return proof_of_growth(log, _head(since))
            if not 0 <= int(entry or 0) < len(log.entries):
                raise Refused(404, f"the log has {len(log.entries)} entries, got entry={entry}.")
            return proof_of_place(log, int(entry or 0))

        return await service.in_thread(read)

    @routes.post("/v1/stores/{store}/predict", response_model=Predictions)
    async def predict(store: StoreName, given: RowsToPredict, caller: predicting) -> Response:
        """Predictions of the model as it is now."""
        values, likely = await service.predictors.predict(
            service.stores.path(store), given.rows, likely=given.probabilities
        )
        return answer(Predictions(predictions=values, probabilities=likely))

    @routes.get("/v1/tokens", response_model=Tokens, tags=["tokens"])
    async def list_tokens(caller: officer) -> Response:
        """All tokens, without their secrets."""

        def read() -> list[Found]:
            with database.reading() as tx:
                return tokens.list_tokens(tx)

        found = await service.in_thread(read)
        return answer(Tokens(tokens=[TokenState(**token_record(one)) for one in found]))

    @routes.post("/v1/tokens", status_code=201, response_model=TokenMade, tags=["tokens"])
    async def add_token(new: NewToken, caller: officer) -> Response:
        """Make a token. Its text is shown this once."""
        found, text = await service.in_thread(make_token, service, new, caller)
        return answer(TokenMade(token=text, **token_record(found)), 201)

    @routes.delete("/v1/tokens/{token}", status_code=204, tags=["tokens"])
    async def revoke_token(token: str, caller: officer) -> Response:
        """Revoke a token, and end its sessions."""
        await service.in_thread(end_token, service, token, caller)
        return Response(status_code=204)

    return routes


def _head(text: str) -> Head:
    try:
        return Head.parse(text)
    except LedgerMismatch as error:
        raise Refused(422, str(error)) from None


def presence(service: Service, store: str, subject: str, caller: Caller) -> Presence:
    """Whether a person is in the model; that somebody asked goes into the log."""
    opened = service.stores.open(store)
    name = hash_name(subject, opened.key)
    known = opened.known()
    with service.database.writing() as tx:
        note_action(tx, caller, "looked a person up", [store])
        waiting = queue.is_waiting(tx, store, name)
    one = bytes.fromhex(name)
    return Presence(
        in_the_model=one in known.n_rows,
        n_rows=known.n_rows.get(one, 0),
        forgotten=one in known.forgotten,
        waiting=waiting,
    )


def state_of_store(service: Service, name: str) -> StoreState:
    """A store as a message."""
    opened = service.stores.open(name)
    log = opened.log()
    known = opened.known()
    with service.database.reading() as tx:
        n_waiting, n_overdue = queue.count_open(tx, name, date.today())
    return StoreState(
        name=name,
        method="refit" if known.method == "refit" else "langevin",
        n_rows=sum(known.n_rows.values()),
        n_people_forgotten=len(known.forgotten),
        n_waiting=n_waiting,
        n_overdue=n_overdue,
        entries=len(log.entries),
        head=str(log.head),
        last_change=datetime.fromisoformat(str(log.entries[-1].record["time"])),
    )


def make_token(service: Service, new: NewToken, caller: Caller) -> tuple[Found, str]:
    """Make a token, and note who did."""
    with service.database.writing() as tx:
        number, text = tokens.add_token(
            tx, new.name, new.role, days=new.days, per_second=new.per_second
        )
        words = f"made the token {number} ({new.role})"
        note_action(tx, caller, words, service.stores.names())
        (found,) = [one for one in tokens.list_tokens(tx) if one["id"] == number]
    return found, text


def end_token(service: Service, number: str, caller: Caller) -> None:
    """Revoke a token, and note who did."""
    with service.database.writing() as tx:
        if "\x00" in number or not tokens.revoke_token(tx, number):
            raise Refused(404, "there is no such token, or it was revoked before.")
        note_action(tx, caller, f"revoked the token {number}", service.stores.names())


def token_record(found: Found) -> dict[str, Any]:
    """A token of the database, without its secret."""
    return {
        "id": found["id"],
        "name": found["name"],
        "role": found["role"],
        "per_second": found["per_second"],
        **{name: time_of(found[name]) for name in ("made", "expires", "revoked")},
    }
