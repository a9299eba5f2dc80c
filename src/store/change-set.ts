import { keyText } from './rows.js'
import type { Operation, RecordKey } from './store.js'

interface Entry extends RecordKey {
  readonly operation: Operation
}

/** What one transaction did to each record, taken together: an insert that was deleted again is nothing. */
export class ChangeSet {
  readonly #entries = new Map<string, Entry>()

  get size(): number {
    return this.#entries.size
  }

  add({ kind, id }: RecordKey, operation: Operation): void {
    const key = keyText({ kind, id })
    const sum = together(this.#entries.get(key)?.operation, operation)
    if (sum === undefined) this.#entries.delete(key)
    else this.#entries.set(key, { kind, id, operation: sum })
  }

  entries(): Entry[] {
    return [...this.#entries.values()]
  }
}

function together(first: Operation | undefined, then: Operation): Operation | undefined {
  if (first === 'insert') return then === 'delete' ? undefined : 'insert'
  if (first === 'delete') return 'update'
  return then
}
