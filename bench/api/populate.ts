import type { Insertable, Selectable } from 'kysely'
import { SqliteHere, sqliteDatabase } from '../../src/store/sqlite.js'
import type { Tables } from '../../src/store/tables.js'
import { openAccount } from './account.js'
import { Client } from './client.js'

/** A route that traffic reaches by its host. */
export interface Site {
  readonly host: string
  /** Of the route in the API. */
  readonly path: string
}

export interface Shape {
  /** Edges and routes together. */
  readonly resources: number
  readonly routesPerEdge: number
}

const HOST = 'host-0.bench.test'
const MATCH = '/match-0'
const ROWS = 100

/** A policy whose answer says which write made it. */
export function answering(marker: string): string {
  const config = { status_code: 200, body: marker }
  return JSON.stringify({ on_http_request: [{ actions: [{ type: 'custom-response', config }] }] })
}

const policy = (marker: string) => ({ traffic_policy: { value: answering(marker) } })

/**
 * Fills a new SQLite file with edges and routes, each route with a policy of its own; the first route of an edge takes
 * `/`. The API writes one edge, the others are copies of its rows, because 100,000 writes would take minutes.
 */
export async function populate(path: string, { resources, routesPerEdge }: Shape): Promise<readonly Site[]> {
  const ids = await firstEdge(path)
  const database = sqliteDatabase(path, SqliteHere.open(path))
  const db = database.writes
  const records = await db.selectFrom('records').selectAll().orderBy('sequence').execute()
  const references = await db.selectFrom('references').selectAll().execute()
  const claims = await db.selectFrom('claims').selectAll().execute()
  const meta = await db.selectFrom('meta').selectAll().executeTakeFirstOrThrow()
  let { sequence } = meta
  const made: {
    records: Insertable<Tables['records']>[]
    references: Insertable<Tables['references']>[]
    claims: Selectable<Tables['claims']>[]
  } = { records: [], references: [], claims: [] }
  /** Copies one record with its claims and references; `names` says which of the texts in it become which. */
  const copy = (id: string, names: readonly (readonly [string, string])[]) => {
    const renamed = <R extends object>(row: R): R => {
      const entries = Object.entries(row).map(([column, value]) => {
        const text = names.reduce((text, [from, to]) => text.replaceAll(from, to), String(value))
        return [column, typeof value === 'string' ? text : value]
      })
      return Object.fromEntries(entries) as R
    }
    const record = records.find((one) => one.id === id)
    if (record === undefined) throw new RangeError(`${id} was not stored`)
    made.records.push({ ...renamed({ ...record, sealed: null }), sequence: ++sequence })
    made.references.push(...references.filter(({ from_id }) => from_id === id).map(renamed))
    made.claims.push(...claims.filter((claim) => claim.id === id).map(renamed))
  }
  const sites: Site[] = [{ host: HOST, path: `/edges/https/${ids.edge}/routes/${ids.root}` }]
  for (let count = 3, n = 1; count < resources; n++) {
    const host = HOST.replace('0', String(n))
    const edge = `${ids.edge.slice(0, -8)}${String(n).padStart(8, '0')}`
    const names = [
      [ids.edge, edge],
      [HOST, host]
    ] as const
    copy(ids.edge, names)
    count++
    for (let m = 0; m < routesPerEdge && count < resources; m++, count++) {
      const model = m === 0 ? ids.root : ids.other
      const route = `${model.slice(0, -12)}${String(n).padStart(6, '0')}${String(m).padStart(6, '0')}`
      copy(model, [...names, [model, route], [MATCH, `/match-${m}`]])
      if (m === 0) sites.push({ host, path: `/edges/https/${edge}/routes/${route}` })
    }
  }
  await db.transaction().execute(async (trx) => {
    for (let at = 0; at < made.records.length; at += ROWS) {
      await trx
        .insertInto('records')
        .values(made.records.slice(at, at + ROWS))
        .execute()
    }
    for (let at = 0; at < made.references.length; at += ROWS) {
      await trx
        .insertInto('references')
        .values(made.references.slice(at, at + ROWS))
        .execute()
    }
    for (let at = 0; at < made.claims.length; at += ROWS) {
      await trx
        .insertInto('claims')
        .values(made.claims.slice(at, at + ROWS))
        .execute()
    }
    await trx.updateTable('meta').set({ sequence }).execute()
  })
  await database.close()
  return sites
}

async function firstEdge(path: string): Promise<{ edge: string; root: string; other: string }> {
  const account = await openAccount(path)
  const client = new Client(account.api.port)
  const edge = (await client.must(201, 'POST', '/edges/https', { hostports: [`${HOST}:443`] })).json.id
  const routes = `/edges/https/${edge}/routes`
  const root = (await client.must(201, 'POST', routes, { match: '/', ...policy('0') })).json.id
  const other = (await client.must(201, 'POST', routes, { match: MATCH, ...policy('0') })).json.id
  client.close()
  await account.close()
  return { edge, root, other }
}
