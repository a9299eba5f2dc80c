import { failoverBackend, httpResponseBackend, weightedBackend } from '../resources/backends.js'
import { httpsEdgeRoute, tcpEdge } from '../resources/edges.js'
import { fieldErrors } from '../schema/errors.js'
import type { ResourceRecord } from '../schema/field.js'
import type { RecordKey, StoreReader } from '../store/store.js'
import { ControlError } from './errors.js'

type Module = { readonly enabled: boolean } & Readonly<Record<string, unknown>>
type Place = Pick<ResourceRecord, 'kind' | 'id' | 'body'>

const GROUPS: ReadonlySet<string> = new Set([weightedBackend.name, failoverBackend.name])

/**
 * Fails with `CONFLICTING_FIELDS` when bytes would be led to a fixed HTTP response, which says nothing on plain bytes: from a TCP
 * edge or from a route that converts WebSockets, directly or through backends of backends. What led there before stays.
 */
export async function mustCarryBytes(
  reader: StoreReader,
  before: ResourceRecord | undefined,
  after: ResourceRecord
): Promise<void> {
  const backend = carrierOf(after)
  if (backend !== undefined && backend !== (before === undefined ? undefined : carrierOf(before))) {
    const response = await responseBehind(reader, [backend])
    if (response !== undefined) {
      const message = `leads to ${httpResponseBackend.name} ${response}, which cannot answer on plain bytes`
      throw new ControlError(fieldErrors.CONFLICTING_FIELDS, `backend.backend_id ${message}`, {
        field: 'backend.backend_id'
      })
    }
  }
  if (!GROUPS.has(after.kind)) return
  const had = new Set(before === undefined ? [] : membersOf(before))
  const response = await responseBehind(
    reader,
    membersOf(after).filter((id) => !had.has(id))
  )
  const carrier = response === undefined ? undefined : await carrierAbove(reader, after)
  if (carrier === undefined) return
  const message = `backends leads to ${httpResponseBackend.name} ${response}, but ${carrier.kind} ${carrier.id} sends plain bytes here`
  throw new ControlError(fieldErrors.CONFLICTING_FIELDS, message, { field: 'backends' })
}

/** Id of the backend to which a record sends plain bytes. */
function carrierOf({ kind, body }: Place): string | undefined {
  const { backend, websocket_tcp_converter: converter } = body as Readonly<Record<string, Module | null | undefined>>
  const sends = kind === tcpEdge.name || (kind === httpsEdgeRoute.name && converter?.enabled === true)
  return sends && backend?.enabled === true ? String(backend.backend) : undefined
}

function membersOf({ kind, body }: Place): readonly string[] {
  if (!GROUPS.has(kind)) return []
  return Array.isArray(body.backends) ? (body.backends as string[]) : Object.keys(body.backends as object)
}

/** Id of a fixed response among backends and their members. Groups cannot lie in a circle. */
async function responseBehind(reader: StoreReader, ids: readonly string[]): Promise<string | undefined> {
  if (ids.length === 0) return undefined
  const kinds = [httpResponseBackend.name, ...GROUPS]
  const found = await reader.getMany(ids.flatMap((id) => kinds.map((kind) => ({ kind, id }))))
  const response = found.find(({ kind }) => kind === httpResponseBackend.name)
  if (response !== undefined) return response.id
  return await responseBehind(
    reader,
    found.flatMap((one) => membersOf(one as Place))
  )
}

/** What sends plain bytes to a group, directly or through another. */
async function carrierAbove(reader: StoreReader, { kind, id }: RecordKey): Promise<RecordKey | undefined> {
  const users = (await reader.referencesTo(kind, id)).map(({ from }) => from)
  for (const user of await reader.getMany(users)) {
    if (carrierOf(user as Place) === id) return user
    const above = GROUPS.has(user.kind) ? await carrierAbove(reader, user) : undefined
    if (above !== undefined) return above
  }
  return undefined
}
