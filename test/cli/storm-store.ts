import { isDeepStrictEqual } from 'node:util'
import { claimText } from '../../src/store/queries.js'
import type { Database } from '../../src/store/tables.js'
import type { Acknowledged } from './storm.js'

/** What is inconsistent within a store that nobody writes to, in words. */
export async function inconsistent(database: Database, acknowledged: readonly Acknowledged[]): Promise<string[]> {
  const db = database.reads
  const wrong: string[] = []
  const meta = await db.selectFrom('meta').selectAll().executeTakeFirstOrThrow()
  const revisions = await db.selectFrom('revisions').select(['revision', 'operation_id']).orderBy('revision').execute()
  const operations = new Map(revisions.map(({ revision, operation_id }) => [revision, operation_id]))
  revisions.forEach(({ revision }, index) => {
    if (revision !== Math.max(meta.history_from, 1) + index) wrong.push(`revision ${revision} stands at place ${index}`)
  })
  if (revisions.at(-1)?.revision !== meta.revision) wrong.push(`revision ${meta.revision} has no history`)
  for (const { revision, operationId } of acknowledged) {
    if (operations.get(revision) !== operationId) wrong.push(`acknowledged revision ${revision} is another write`)
  }

  const records = await db.selectFrom('records').selectAll().execute()
  const key = (kind: string, id: string) => `${kind} ${id}`
  const ids = new Set(records.map(({ kind, id }) => key(kind, id)))
  const claims = await db.selectFrom('claims').selectAll().execute()
  const references = await db.selectFrom('references').selectAll().execute()
  const last = new Map<string, { revision: number; operation: string }>()
  for (const change of await db.selectFrom('changes').selectAll().orderBy('revision').orderBy('position').execute()) {
    last.set(key(change.kind, change.id), change)
  }
  for (const { kind, id } of claims) if (!ids.has(key(kind, id))) wrong.push(`a claim of ${kind} ${id}, which is gone`)
  for (const { from_kind, from_id, to_kind, to_id } of references) {
    if (!ids.has(key(from_kind, from_id))) wrong.push(`a reference from ${from_kind} ${from_id}, which is gone`)
    if (!ids.has(key(to_kind, to_id))) wrong.push(`a reference to ${to_kind} ${to_id}, which is gone`)
  }
  for (const { kind, id, revision, sequence, body } of records) {
    const own = key(kind, id)
    const change = last.get(own)
    if (change?.revision !== revision || change.operation === 'delete') wrong.push(`${own} is unlike its last change`)
    if (sequence > meta.sequence) wrong.push(`${own} has a sequence that is yet to come`)
    const held = claims.filter((claim) => claim.kind === kind && claim.id === id).map(({ value }) => value)
    if (kind === 'https_edge') {
      const hostports = (JSON.parse(body).hostports as string[]).map(claimText)
      if (!isDeepStrictEqual(held.sort(), hostports.sort())) wrong.push(`${own} claims ${held} instead of ${hostports}`)
    }
    if (kind !== 'https_edge_route') continue
    if (held.length !== 1) wrong.push(`${own} has ${held.length} claims`)
    const edge = references.filter(({ from_kind, from_id }) => from_kind === kind && from_id === id)
    if (edge.length !== 1 || edge[0]?.to_id !== JSON.parse(body).edge_id) wrong.push(`${own} does not name its edge`)
  }
  for (const [own, { operation }] of last) {
    if (operation !== 'delete' && !ids.has(own)) wrong.push(`${own} is gone without a change`)
  }
  return wrong
}
