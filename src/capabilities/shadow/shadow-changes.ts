import type { Call, Done, PathValues } from '../../control/calls.js'
import { ControlError, controlErrors } from '../../control/errors.js'
import { RecordOperations, type RecordOperationsParts } from '../../control/record-operations.js'
import { membersOf, refused, textOf, wordOf } from '../../control/request-body.js'
import type { Draft } from '../../control/transaction.js'
import type { Rehearsed, Writer } from '../../control/writer.js'
import type { Resource } from '../../resources/resource.js'

const METHODS = ['POST', 'PATCH', 'PUT', 'DELETE'] as const

/** One of the rehearsed writes. */
export interface ShadowChange {
  /** Position in the request. */
  readonly at: string
  readonly method: (typeof METHODS)[number]
  readonly path: string
  readonly body: unknown
}

/** Reads one entry of `changes`. Fails with a ControlError. */
export function shadowChange(value: unknown, at: string): ShadowChange {
  const { method, path, body } = membersOf(value, at, ['method', 'path', 'body'])
  if (method === undefined) throw refused('FIELD_REQUIRED', `${at}.method`, 'is missing')
  return { at, method: wordOf(method, `${at}.method`, METHODS, 'POST'), path: textOf(path, `${at}.path`), body }
}

interface RehearsalParts extends Omit<RecordOperationsParts, 'writer' | 'store'> {
  readonly writer: Writer
  readonly resources: readonly Resource[]
}

/** A record, or one of its modules, that a path leads to. */
interface Target {
  readonly resource: Resource
  readonly path: PathValues
  /** Id of the record; undefined for the collection. */
  readonly id: string | undefined
  readonly module: string | undefined
}

const NOT_DONE: Done = { committed: 0, difference: { put: [], drop: [] } }

/** Computes the configuration after writes. Fails with a ControlError, as the writes would. */
export type Rehearse = (changes: readonly ShadowChange[], call: Call) => Promise<Rehearsed>

/** Computes the configuration after a set of writes, as one write, and discards the draft. */
export class Rehearsal {
  readonly #parts: RehearsalParts

  constructor(parts: RehearsalParts) {
    this.#parts = parts
  }

  /** Fails with a ControlError, as the writes would; its field begins with the place of the write. */
  readonly run: Rehearse = async (changes, call) => {
    return await this.#parts.writer.rehearse(call, async (draft) => {
      const records = this.#operations(draft)
      for (const change of changes) {
        try {
          await this.#write(records, change, call)
        } catch (error) {
          throw at(change, error)
        }
      }
    })
  }

  /** Creates the API's record operations within one draft. */
  #operations(draft: Draft): RecordOperations {
    const writer: Pick<Writer, 'write'> = {
      write: async (_call, _mode, work) => ({ value: await work(draft), done: NOT_DONE })
    }
    return new RecordOperations({ ...this.#parts, store: draft.tx, writer })
  }

  async #write(records: RecordOperations, change: ShadowChange, call: Call): Promise<void> {
    const { method, body } = change
    const target = this.#target(change)
    const { resource, path, id, module } = target
    const has = (operation: 'create' | 'update' | 'delete') => resource.operations.includes(operation)
    if (module !== undefined && method === 'PUT' && resource.modules.includes(module))
      await records.replaceModule(resource, { path, body, module }, call)
    else if (module !== undefined && method === 'DELETE') await records.removeModule(resource, { path, module }, call)
    else if (module === undefined && id === undefined && method === 'POST' && has('create'))
      await records.create(resource, { path, body }, call)
    else if (module === undefined && id !== undefined && method === 'PATCH' && has('update'))
      await records.update(resource, { path, body }, call)
    else if (module === undefined && id !== undefined && method === 'DELETE' && has('delete'))
      await records.remove(resource, { path }, call)
    else throw refused('FIELD_INVALID', 'method', `${method} cannot be tried on this path`)
  }

  #target({ path }: ShadowChange): Target {
    const segments = path.split('/').slice(1)
    for (const resource of this.#parts.resources) {
      const pattern = resource.path.split('/').slice(1)
      const [id, module, ...rest] = segments.slice(pattern.length)
      const values = valuesIn(pattern, segments)
      if (values === undefined || rest.length > 0) continue
      const known = module === undefined || [...resource.modules, ...resource.clearable].includes(module)
      if (known) return { resource, path: id === undefined ? values : { ...values, id }, id, module }
    }
    throw refused('FIELD_INVALID', 'path', 'leads to no record that can be written')
  }
}

const VALUE = /^[A-Za-z0-9_.-]{1,100}$/

/** Returns the values of the parameters of a path; undefined if it does not match. */
function valuesIn(pattern: readonly string[], segments: readonly string[]): PathValues | undefined {
  const values: Record<string, string> = {}
  for (const [i, part] of pattern.entries()) {
    const segment = segments[i]
    if (segment === undefined) return undefined
    if (!part.startsWith('{')) {
      if (segment !== part) return undefined
    } else if (VALUE.test(segment)) values[part.slice(1, -1)] = segment
    else return undefined
  }
  return segments.slice(pattern.length).every((segment) => VALUE.test(segment)) ? values : undefined
}

const OF_ENTRY: ReadonlySet<string> = new Set(['method', 'path'])

function at(change: ShadowChange, error: unknown): unknown {
  if (!(error instanceof ControlError)) return error
  const { code, details, problems, field } = error
  if (code === controlErrors.ADMIN_REQUIRED.code) return error
  const own = field === undefined ? change.at : `${change.at}.${OF_ENTRY.has(field) ? field : `body.${field}`}`
  const message = `${change.at}: ${error.message}`
  return new ControlError(error, message, {
    field: own,
    details: { ...details, field: own },
    problems,
    cause: error
  })
}
