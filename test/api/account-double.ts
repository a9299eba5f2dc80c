import type { Account } from '../../src/api/calls.js'
import { readGuard } from '../../src/capabilities/guard/conditions.js'
import type { Entrance } from '../../src/control/access.js'
import type { Call, Done, Principal, Shown, Written } from '../../src/control/calls.js'
import { ControlError, controlErrors } from '../../src/control/errors.js'
import { Policies } from '../../src/control/policies.js'
import { KEY } from './asking.js'
import { EMPTY_DAY, EMPTY_MAP, EMPTY_TRAFFIC } from './traffic-double.js'

const PRINCIPAL: Principal = { id: 'usr_1', role: 'administrator', subject: 'operator', key: null }

const record = { kind: 'thing', id: 'x_1', createdAt: '2026-01-01T00:00:00Z', body: {}, secrets: {} }
const shown: Shown = { record, body: { id: 'x_1' }, revision: 7 }
const done: Done = { committed: 9, difference: { put: ['policy:a'], drop: [] } }
const written: Written = { ...shown, ...done, uri: 'http://api.test/things/x_1' }

/** Answers everything with one record and notes what it was asked: for what happens before and behind the account. */
export class AccountDouble implements Account {
  readonly asked: { readonly operation: string; readonly resource: string; readonly request: unknown }[] = []
  /** Thrown by the next operation. */
  failure: ControlError | undefined
  admitted = true
  pagesAdmitted = true
  permitted = true
  principal: Principal = PRINCIPAL

  /** One object answers for all parts of the account. */
  readonly records = this
  readonly access = this
  readonly configuration = this
  readonly guards = { read: readGuard }

  readonly revision = 8

  /** The last request. */
  get last(): Readonly<Record<string, unknown>> {
    return (this.asked.at(-1)?.request ?? {}) as Readonly<Record<string, unknown>>
  }

  async authenticate(key: string) {
    return key === KEY ? this.principal : undefined
  }

  async otherThanKey() {
    return undefined
  }

  admits(_address: string | undefined, entrance: Entrance) {
    return entrance === 'api' ? this.admitted : this.pagesAdmitted
  }

  keepsOut(_address: string | undefined, entrance: Entrance) {
    return !this.admits(_address, entrance)
  }

  permit() {
    if (!this.permitted) throw new ControlError(controlErrors.ADMIN_REQUIRED, 'only an administrator may do this')
  }

  create = this.#answer('create', written)
  get = this.#answer('get', shown)
  list = this.#answer('list', { things: [], uri: 'u', next_page_uri: null })
  update = this.#answer('update', written)
  remove = this.#answer('remove', done)
  getModule = this.#answer('getModule', shown)
  replaceModule = this.#answer('replaceModule', written)
  renewCertificate = this.#answer('renewCertificate', written)
  removeModule = this.#answer('removeModule', done)
  getParts = this.#partAnswer('getParts', shown)
  getPart = this.#partAnswer('getPart', shown)
  addPart = this.#partAnswer('addPart', written)
  updatePart = this.#partAnswer('updatePart', written)
  removePart = this.#partAnswer('removePart', done)

  async commandSession(id: string, command: string) {
    this.#note('commandSession', 'tunnel_session', { id, command })
  }

  readonly reverts = {
    revert: async (revision: number, mode: object) => {
      this.#note('revert', 'revision', { revision, ...mode })
      return { ...done, by: revision + 1, body: { reverts: { id: revision, uri: 'u' }, revision: null, changes: [] } }
    }
  }

  readonly revisions = {
    list: async (page: object) => {
      this.#note('list', 'revision', page)
      return { revisions: [], uri: 'u', next_page_uri: null }
    },
    get: async (revision: number) => {
      this.#note('get', 'revision', { revision })
      return {
        id: revision,
        uri: 'u',
        created_at: '2026-01-31T12:00:00Z',
        operation_id: 'op_1',
        principal: null,
        api_key: null,
        created: 0,
        updated: 0,
        deleted: 0,
        reverts: null,
        reason: null,
        guard: null
      }
    },
    diff: async (revision: number) => {
      this.#note('diff', 'revision', { revision })
      return {
        id: revision,
        uri: 'u',
        revision: { id: revision, uri: 'u' },
        from: { id: revision - 1, uri: null },
        created_at: '2026-01-31T12:00:00Z',
        principal: null,
        changes: []
      }
    }
  }

  readonly traffic = {
    day: (minutes: number, step: number) => this.#noted('day', { minutes, step }, EMPTY_DAY),
    history: (seconds: number) => this.#noted('history', { seconds }, EMPTY_TRAFFIC),
    follow: () => () => undefined,
    map: () => this.#noted('map', {}, EMPTY_MAP)
  }

  readonly policies = new Policies(undefined)

  readonly sessions = {
    name: 'sluice.dashboard.session.sl000000000000',
    open: async (body: unknown) => {
      this.#note('open', 'session', { body })
      return { principal: this.principal, cookie: 'sealed', remaining: 60_000 }
    },
    resume: async (cookie: string) =>
      cookie === 'sealed' ? { principal: this.principal, cookie: undefined, remaining: 60_000 } : undefined,
    watching: async (cookie: string) => (cookie === 'sealed' ? this.principal : undefined),
    end: async (cookie: string) => cookie === 'sealed',
    shown: ({ id, role, subject }: Principal) => ({ principal: { id, role, subject }, rights: {}, expires_at: null })
  }

  async processes() {
    return [
      {
        id: 'p1',
        appliedRevision: 8,
        lastError: null,
        divergedAt: null,
        seenAt: '2026-01-01T00:00:00Z',
        goneSince: null,
        self: true,
        workers: [],
        numbers: null
      }
    ]
  }

  #answer<A>(operation: string, answer: A) {
    return async (resource: { name: string }, request: unknown, _call: Call): Promise<A> => {
      this.#note(operation, resource.name, request)
      return answer
    }
  }

  #partAnswer<A>(operation: string, answer: A) {
    return async (resource: { name: string }, _part: unknown, request: unknown, _call: Call): Promise<A> => {
      this.#note(operation, resource.name, request)
      return answer
    }
  }

  #note(operation: string, resource: string, request: unknown): void {
    this.asked.push({ operation, resource, request })
    const { failure } = this
    this.failure = undefined
    if (failure !== undefined) throw failure
  }

  #noted<A>(operation: string, request: object, answer: A): A {
    this.#note(operation, 'exchange', request)
    return answer
  }
}
