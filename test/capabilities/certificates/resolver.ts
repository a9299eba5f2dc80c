import { createSocket } from 'node:dgram'
import { Resolver } from 'node:dns/promises'
import {
  type Answer,
  type Query,
  RCODE,
  readQuery,
  TYPE,
  writeAnswer
} from '../../../src/capabilities/certificates/dns/message.js'

interface Test {
  teardown(run: () => Promise<void> | void): void
}

/** The resolver of an authority: every name has the address 127.0.0.1, and TXT records are where CNAME records lead to. */
export interface TestResolver {
  readonly port: number
  /** CNAME records, names in lower case. */
  readonly aliases: Map<string, string>
  /** Port of the name server that TXT records are asked of. */
  server: number | undefined
  /** Answers every question with SERVFAIL. */
  broken: boolean
  /** Called with each question, which is answered when what this answers is there. */
  before: (name: string) => Promise<void>
}

export async function startResolver(t: Test): Promise<TestResolver> {
  const socket = createSocket('udp4')
  let isOpen = true
  const state: { -readonly [K in keyof TestResolver]: TestResolver[K] } = {
    port: 0,
    aliases: new Map(),
    server: undefined,
    broken: false,
    before: async () => undefined
  }
  socket.on('message', (bytes, peer) => {
    const reading = readQuery(bytes)
    if (reading === undefined || !reading.ok) return
    const { query } = reading
    void state
      .before(query.name)
      .then(() => answer(query, state))
      .then((found) => {
        if (isOpen) socket.send(writeAnswer(query, found, 'udp'), peer.port, peer.address)
      })
  })
  await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve))
  state.port = socket.address().port
  t.teardown(() => {
    isOpen = false
    return new Promise<void>((resolve) => socket.close(() => resolve()))
  })
  return state
}

async function answer({ name, type }: Query, { aliases, server, broken }: TestResolver): Promise<Answer> {
  const answers: Answer['answers'][number][] = []
  if (broken) return { rcode: RCODE.SERVFAIL, authoritative: false, answers }
  if (type === TYPE.A) answers.push({ type, ttl: 1, data: Buffer.of(127, 0, 0, 1) })
  if (type === TYPE.TXT && server !== undefined) {
    for (const value of await texts(aliases.get(name) ?? name, server)) {
      answers.push({ type, ttl: 1, data: Buffer.concat([Buffer.of(value.length), Buffer.from(value)]) })
    }
  }
  return { rcode: RCODE.NOERROR, authoritative: false, answers }
}

/** As a client that is not ours asks. */
async function texts(name: string, server: number): Promise<string[]> {
  const resolver = new Resolver({ timeout: 2_000, tries: 1 })
  resolver.setServers([`127.0.0.1:${server}`])
  try {
    return (await resolver.resolveTxt(name)).map((parts) => parts.join(''))
  } catch {
    // No records, or no such name.
    return []
  }
}
