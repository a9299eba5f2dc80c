import { open, stat } from 'node:fs/promises'
import type { Account } from '../../src/api/calls.js'
import type { Entrance } from '../../src/control/access.js'
import type { Call, Done, Principal, Shown, Written } from '../../src/control/calls.js'
import { ControlError, controlErrors } from '../../src/control/errors.js'
import type { Json } from '../../src/lib/json.js'
import { KEY } from './asking.js'

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

  async testDestination() {
    return { delivered: true, error: null, duration_ms: 1 }
  }

  readonly deadLetters = {
    list: async (request: object) => {
      this.#note('list', 'dead_letter', request)
      return { dead_letters: [], uri: 'u', next_page_uri: null }
    },
    get: async (request: object) => {
      this.#note('get', 'dead_letter', request)
      return { id: 'dl_1' }
    },
    redeliver: async (request: object) => {
      this.#note('redeliver', 'dead_letter', request)
      return 1
    },
    drop: async (request: object) => {
      this.#note('drop', 'dead_letter', request)
      return 1
    }
  }

  async commandSession(id: string, command: string) {
    this.#note('commandSession', 'tunnel_session', { id, command })
  }

  readonly reverts = {
    revert: async (revision: number, mode: object) => {
      this.#note('revert', 'revision', { revision, ...mode })
      return { ...done, by: revision + 1, body: { reverts: { id: revision } } }
    }
  }

  readonly exports = {
    at: async (revision: number) => {
      this.#note('at', 'export', { revision })
      return { format: 'sluice-account/1' as const, version: '1.2.3', users: [], records: {} }
    }
  }

  readonly revisions = {
    list: async (page: object) => {
      this.#note('list', 'revision', page)
      return { revisions: [], uri: 'u', next_page_uri: null }
    },
    get: async (revision: number) => {
      this.#note('get', 'revision', { revision })
      return { id: revision }
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

  readonly explanations = {
    explain: async (body: unknown) => {
      this.#note('explain', 'explanation', { body })
      return []
    },
    policy: (owner: string) => {
      this.#note('policy', 'explanation', { owner })
      return { owner, source: 's', digest: 'd', text: 't' }
    }
  }

  readonly exchanges = {
    list: async (criteria: object, page: object) => this.#noted('list', { criteria, page }),
    get: async (id: string) => this.#noted('get', { id }),
    archive: async (criteria: object, limit: number) => this.#noted('archive', { criteria, limit }),
    clear: () => this.#note('clear', 'exchange', {}),
    follow: (criteria: object) => {
      this.#note('follow', 'exchange', { criteria })
      return () => undefined
    },
    makeKey: (body: unknown) => this.#noted('makeKey', { body }),
    replay: async (id: string, body: unknown) => this.#noted('replay', { id, body }),
    compare: async (body: unknown) => this.#noted('compare', { body })
  }

  readonly limits = {
    list: async (query: object) => this.#noted('list', { query }),
    get: async (id: string) => this.#noted('get', { id }),
    bucket: async (id: string, query: object) => this.#noted('bucket', { id, query }),
    reset: async (id: string, query: object) => this.#noted('reset', { id, query }),
    top: async (id: string, most: number) => this.#noted('top', { id, most })
  }

  readonly shadows = {
    create: async (body: unknown) => {
      this.#note('create', 'shadow', { body })
      return { id: 'shd_1', shadow: { id: 'shd_1' } }
    },
    list: () => [],
    get: (id: string) => {
      this.#note('get', 'shadow', { id })
      return { id }
    },
    remove: (id: string) => this.#note('remove', 'shadow', { id })
  }

  readonly traffic = {
    day: (minutes: number, step: number) => this.#noted('day', { minutes, step }),
    history: (seconds: number) => this.#noted('history', { seconds }),
    follow: () => () => undefined,
    map: () => this.#noted('map', {})
  }

  readonly policies = {
    check: async (body: unknown) => this.#noted('check', { body }),
    describe: () => this.#noted('describe', {}),
    test: async (body: unknown) => this.#noted('test', { body })
  }

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
    shown: ({ id }: Principal) => ({ principal: { id } })
  }

  readonly site = {
    get: async () => {
      this.#note('get', 'site_file', {})
      return { body: { file: null, items: [] }, revision: 7 }
    },
    replace: async (body: unknown, mode: object) => {
      this.#note('replace', 'site_file', { body, ...mode })
      return { ...done, body: { file: 'sites.yaml' }, revision: 7, uri: 'http://api.test/site' }
    },
    remove: async (mode: object) => {
      this.#note('remove', 'site_file', mode)
      return { ...done, body: {}, revision: 7, uri: 'http://api.test/site' }
    },
    adopt: async () => {
      this.#note('adopt', 'site_file', {})
      return { file: '', files: [] }
    }
  }

  readonly backups = {
    make: async () => {
      this.#note('make', 'backup', {})
      return { file: await open('package.json'), bytes: (await stat('package.json')).size }
    }
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

  #noted(operation: string, request: object): Json {
    this.#note(operation, 'exchange', request)
    return { id: 'exch_1' }
  }
}
