import type { Test } from 'tap'
import { type Context, filled, mismatch, type Saved } from './kinds.js'
import type { Before, Body, Extra, Family, Module } from './rows.js'

/** One call of an operation. */
export interface Call {
  /** The reference's name of the family. */
  readonly family: string
  /** create, get, list, update, delete, replace, or the name of an extra operation. */
  readonly verb: string
  readonly method: 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE'
  readonly path: string
  readonly body?: Body | undefined
  /** Of a list: CEL over its objects. */
  readonly filter?: string | undefined
}

export interface Reply {
  readonly status: number
  // biome-ignore lint/suspicious/noExplicitAny: answers are looked at member by member.
  readonly json: any
}

/** A client of the API. */
export interface Client {
  call(call: Call): Promise<Reply>
  /** Items of a list, whose pages have one object each. `key`: name of the list in an answer; `whole`: the list has no pages. */
  list(call: Call, key: string, whole: boolean): Promise<readonly Body[]>
  /** The client's lists take a filter. */
  readonly filters: boolean
  /** Sends what the caller leaves out. */
  readonly zeros: boolean
  /** Value as the client shows it to its caller. */
  show<V>(value: V): V
}

/** A stage on which rows run: the product, and the client that calls it. */
export interface Stage {
  readonly client: Client
  readonly base: string
  /** Creates what rows refer to. */
  make(path: string, body: object): Promise<Saved>
  /** Names of the operations that have run. */
  readonly done: Set<string>
  /** Errors inside of the product. */
  readonly faults: readonly unknown[]
}

const ALL = ['create', 'get', 'list', 'update', 'delete'] as const
const METHODS = { create: 'POST', get: 'GET', list: 'GET', update: 'PATCH', delete: 'DELETE', replace: 'PUT' } as const
const STATUS = { GET: 200, POST: 201, PATCH: 200, PUT: 200, DELETE: 204 } as const

/** Names of all operations of a family. */
export function operationsOf({ name, operations = ALL, extra = [] }: Family): readonly string[] {
  return [...operations, ...extra.map((one) => one.name)].map((verb) => `${name}_${verb}`)
}

/** Names of all operations of a module. */
export function operationsOfModule({ name }: Module): readonly string[] {
  return ['replace', 'get', 'delete'].map((verb) => `${name}_${verb}`)
}

async function prepare({ make }: Stage, before: readonly Before[], saved: Map<string, Saved>): Promise<void> {
  for (const [name, path, body] of before) saved.set(name, await make(filled(path, saved), filled(body, saved)))
}

/** Runs all operations of one family in the order create, list, get, update, extra, delete. */
export async function runFamily(t: Test, stage: Stage, family: Family): Promise<void> {
  const saved = new Map<string, Saved>()
  await prepare(stage, family.before ?? [], saved)
  await new FamilyRun(t, stage, family, saved).run()
}

/** Runs the three operations of one module, on objects that are saved. */
export async function runModule(t: Test, stage: Stage, module: Module, saved: ReadonlyMap<string, Saved>) {
  const { name: family, put, answer } = module
  const path = filled(module.path, saved)
  const context: Context = { base: stage.base, prefix: '', path, saved }
  const call = async (verb: 'replace' | 'get' | 'delete', body?: Body) => {
    stage.done.add(`${family}_${verb}`)
    return await stage.client.call({ family, verb, method: METHODS[verb], path, body })
  }
  const expected = stage.client.show(filled(answer, saved))
  for (const [verb, reply] of [
    ['replace', await call('replace', filled(put, saved))],
    ['get', await call('get')]
  ] as const) {
    t.equal(reply.status, 200, `${family}_${verb}: ${JSON.stringify(reply.json)}`)
    t.equal(mismatch(expected, reply.json, context, `${family}_${verb}`), undefined)
  }
  t.equal((await call('delete')).status, 204, `${family}_delete`)
  t.equal((await call('get')).status, 404, `${family}_get of a module that is not set`)
}

/** Prepares the objects that modules belong to. */
export async function prepareModules(stage: Stage, before: readonly Before[]): Promise<ReadonlyMap<string, Saved>> {
  const saved = new Map<string, Saved>()
  await prepare(stage, before, saved)
  return saved
}

class FamilyRun {
  readonly #t: Test
  readonly #stage: Stage
  readonly #family: Family
  readonly #saved: ReadonlyMap<string, Saved>
  readonly #context: Context
  readonly #path: string
  readonly #key: string

  constructor(t: Test, stage: Stage, family: Family, saved: ReadonlyMap<string, Saved>) {
    this.#t = t
    this.#stage = stage
    this.#family = family
    this.#saved = saved
    this.#path = filled(family.path, saved)
    this.#context = { base: stage.base, prefix: family.prefix, path: this.#path, saved }
    this.#key = family.key ?? 'id'
  }

  async run(): Promise<void> {
    const { operations = ALL, create, extra = [], list } = this.#family
    const [made, second] = create === undefined ? [] : await this.#create(create)
    const listed = list === undefined ? [] : await this.#list(list, made, second)
    const object = made ?? listed[0]
    if (object === undefined) throw new Error(`${this.#family.name}: there is no object`)
    const item = `${this.#path}/${object[this.#key]}`
    const got = await this.#get(item, this.#expected(create ?? {}, this.#family.answer, true))
    if (operations.includes('update')) await this.#update(item, got)
    for (const one of extra) await this.#extra(item, one)
    if (!operations.includes('delete')) return
    await this.#call('delete', item)
    if (second !== undefined) await this.#call('delete', `${this.#path}/${second[this.#key]}`)
    await this.#call('get', item, undefined, 404)
  }

  /** Creates an object with what is necessary, and the published one. */
  async #create(create: Body): Promise<readonly [made: Body, second: Body | undefined]> {
    const { needs = [], other, zeros, answer } = this.#family
    const sent = this.#stage.client.zeros ? (zeros?.create ?? {}) : {}
    const least = Object.fromEntries(needs.map((name) => [name, create[name]]))
    const second = await this.#call('create', this.#path, { ...sent, ...least, ...other })
    for (const name of Object.keys(this.#stage.client.show(answer))) {
      this.#t.ok(name in second, `${this.#family.name}: an answer to zero values has ${name}`)
    }
    const made = await this.#call('create', this.#path, { ...sent, ...create })
    this.#check('create', this.#expected(create, answer), made)
    return [made, second]
  }

  async #list(key: string, made: Body | undefined, second: Body | undefined): Promise<readonly Body[]> {
    const { name, answer, create = {}, filter, whole = false } = this.#family
    const { client, done } = this.#stage
    done.add(`${name}_list`)
    const call: Call = { family: name, verb: 'list', method: 'GET', path: this.#path }
    const items = await client.list(call, key, whole)
    const ids = items.map((item) => item[this.#key])
    this.#t.equal(new Set(ids).size, ids.length, `${name}_list shows each object once`)
    const wanted = [made, second].flatMap((one) => (one === undefined ? [] : [one[this.#key]]))
    this.#t.ok(
      wanted.every((id) => ids.includes(id)),
      `${name}_list shows what was created`
    )
    const found = made === undefined ? items[0] : items.find((item) => item[this.#key] === made[this.#key])
    this.#check('list', this.#expected(create, answer, true), found)
    if (filter === true && client.filters && found !== undefined) {
      const only = await client.list({ ...call, filter: `obj.id == "${found.id}"` }, key, false)
      this.#t.same(
        only.map(({ id }) => id),
        [found.id],
        `${name}_list with a filter`
      )
    }
    return items
  }

  async #get(item: string, expected: Body): Promise<Body> {
    const got = await this.#call('get', item)
    this.#check('get', expected, got)
    return got
  }

  /** Updates nothing, if the client sends zero values for that, and then what the published request updates. */
  async #update(item: string, got: Body): Promise<void> {
    const { name, zeros, update = {}, updated = {}, answer, create = {} } = this.#family
    const { client } = this.#stage
    if (client.zeros) {
      const sent = zeros?.update ?? {}
      const answered = await this.#call('update', item, sent)
      const ignored = ['updated_at', 'description', 'metadata'].filter((one) => one === 'updated_at' || one in sent)
      const rest = (body: Body) => Object.entries(body).filter(([key]) => !ignored.includes(key))
      this.#t.same(rest(answered), rest(got), `${name}_update of nothing changes nothing`)
    }
    const sent = client.zeros ? { ...zeros?.update, ...update } : update
    const cleared = Object.entries(sent).filter(([key]) => key === 'description' || key === 'metadata')
    const answered = await this.#call('update', item, sent)
    this.#check(
      'update',
      {
        ...this.#expected({ ...create, ...Object.fromEntries(cleared), ...update }, answer, true),
        ...this.#shown(updated)
      },
      answered
    )
  }

  async #extra(item: string, { name, method, path, answer }: Extra): Promise<void> {
    const body = method === 'POST' ? {} : undefined
    const { family, reply } = await this.#send(name, `${item}${path}`, method, body)
    this.#t.equal(reply.status, answer === undefined ? 204 : 200, `${family}_${name}: ${JSON.stringify(reply.json)}`)
    if (answer !== undefined) this.#check(name, this.#shown(answer), reply.json)
  }

  async #send(verb: string, path: string, method: Call['method'], body?: Body) {
    const { name: family } = this.#family
    this.#stage.done.add(`${family}_${verb}`)
    const reply = await this.#stage.client.call({ family, verb, method, path, body: filled(body, this.#saved) })
    return { family, reply }
  }

  async #call(
    verb: 'create' | 'get' | 'update' | 'delete',
    path: string,
    body?: Body,
    status: number = STATUS[METHODS[verb]]
  ): Promise<Body> {
    const { family, reply } = await this.#send(verb, path, METHODS[verb], body)
    this.#t.equal(reply.status, status, `${family}_${verb} ${path}: ${JSON.stringify(reply.json)?.slice(0, 300)}`)
    return reply.json ?? {}
  }

  #check(verb: string, expected: Body, value: unknown): void {
    const at = `${this.#family.name}_${verb}`
    this.#t.equal(mismatch(expected, value, this.#context, at), undefined, at)
  }

  /** What an answer must have: the members of the specification, with the values that were sent where it names kinds alone. */
  #expected(sent: Body, answer: Body, later = false): Body {
    const { once = [] } = this.#family
    const entries = Object.entries(answer).map(([name, spec]) => {
      if (later && once.includes(name)) return [name, null]
      const isKind = typeof spec === 'string' && /^:(?:text|texts|number|boolean)$/.test(spec)
      return [name, isKind && sent[name] !== undefined ? sent[name] : spec]
    })
    return this.#shown(Object.fromEntries(entries))
  }

  #shown(spec: Body): Body {
    return this.#stage.client.show(filled(spec, this.#saved))
  }
}
