import type { Test } from 'tap'
import { ngrokClient } from '../ngrok-client.js'
import type { Family } from './rows.js'
import { type Client, operationsOf, type Reply, runFamily, type Stage } from './runner.js'

/** The requests that the reference publishes, as they are on a command line. */
export function published(host: string, port: number): Client {
  const ask = ngrokClient(host, port)
  return {
    filters: true,
    zeros: false,
    show: (value) => value,
    call: ({ path, method, body }) => ask(path, { method, body }),
    async list({ path, filter }, key, whole) {
      const items = []
      const query = new URLSearchParams({ limit: '1', ...(filter === undefined ? {} : { filter }) })
      for (let next = whole ? path : `${path}?${query}`; next !== ''; ) {
        const { status, json }: Reply = await ask(next)
        if (status !== 200) throw new Error(`GET ${next}: ${status} ${JSON.stringify(json)}`)
        items.push(...json[key])
        next = (json.next_page_uri ?? '').replace(`http://${host}:${port}`, '')
      }
      return items
    }
  }
}

/** Runs families one after the other, and checks that all of their operations ran. */
export async function runFamilies(t: Test, stage: Stage, families: readonly Family[]): Promise<void> {
  for (const family of families) await t.test(family.name, (t) => runFamily(t, stage, family))
  t.same([...stage.done].sort(), families.flatMap(operationsOf).sort(), 'every operation ran')
  t.same(stage.faults, [], 'no request was a fault of the product')
}
