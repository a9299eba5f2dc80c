import type { Store, StoreTransaction } from '../../src/store/store.js'

/** Milliseconds that the writes of a control plane have waited for their store, one number for each write. */
export class StoreTimes {
  /** Statements of the work, begin, commit and the rows of the history. */
  readonly store: number[] = []

  /** The same store, with a clock on it. */
  over(store: Store): Store {
    return intercepted(store, 'transact', (transact) => async (operationId: string, work: Work) => {
      const begun = performance.now()
      let waited = 0
      let workBegun = 0
      let workEnded = 0
      const outcome = await transact(operationId, async (transaction: StoreTransaction) => {
        workBegun = performance.now()
        const timed = timedTransaction(transaction, (milliseconds) => {
          waited += milliseconds
        })
        const value = await work(timed)
        workEnded = performance.now()
        return value
      })
      const ended = performance.now()
      this.store.push(workBegun - begun + waited + (ended - workEnded))
      return outcome
    })
  }
}

type Work = (transaction: StoreTransaction) => Promise<unknown>
// biome-ignore lint/suspicious/noExplicitAny: any method of a store.
type Method = (...args: any[]) => any

function intercepted<T extends object>(target: T, method: keyof T, wrap: (inner: Method) => Method): T {
  return new Proxy(target, {
    get: (object, name) => {
      const value = Reflect.get(object, name, object) as unknown
      if (typeof value !== 'function') return value
      return name === method ? wrap(value.bind(object)) : value.bind(object)
    }
  })
}

function timedTransaction(transaction: StoreTransaction, waited: (milliseconds: number) => void): StoreTransaction {
  return new Proxy(transaction, {
    get: (object, name) => {
      const value = Reflect.get(object, name, object) as unknown
      if (typeof value !== 'function') return value
      return (...args: unknown[]) => {
        const begun = performance.now()
        const result = value.apply(object, args) as unknown
        if (!(result instanceof Promise)) return result
        return result.finally(() => waited(performance.now() - begun))
      }
    }
  })
}
