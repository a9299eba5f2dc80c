import type { Test } from 'tap'
import type { LiveSession, LiveSources, LiveTunnel } from '../../../src/control/cluster/live-sources.js'
import { newId } from '../../../src/lib/id.js'
import { openAccount } from '../account.js'
import { ngrokClient } from '../ngrok-client.js'
import type { Saved } from './kinds.js'
import type { Client, Stage } from './runner.js'

const START = Date.UTC(2026, 0, 1)
const AGENT = 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0'

function session(number: number, credential: string): LiveSession {
  const startedAt = START + number * 1000
  return {
    id: newId('ts', startedAt),
    startedAt,
    agentVersion: '3.1.0',
    credential,
    ip: '192.0.2.7',
    metadata: '',
    os: 'linux',
    region: 'global',
    transport: 'ngrok/2'
  }
}

function tunnel(number: number, of: LiveSession): LiveTunnel {
  const startedAt = START + number * 1000
  return {
    id: newId('tn', startedAt),
    startedAt,
    session: of.id,
    publicUrl: `https://a${number}.agents.test`,
    proto: 'https',
    region: 'global',
    metadata: '',
    labels: {},
    forwardsTo: 'http://localhost:80',
    pooled: false
  }
}

/** Two agents with a tunnel each; every command reaches its agent. */
class Agents implements LiveSources {
  sessions: readonly LiveSession[] = []
  open: readonly LiveTunnel[] = []
  tunnelSessions = () => this.sessions
  tunnels = () => this.open
  backendsOf = () => []
  watch = () => undefined
  command = async (id: string) => this.sessions.some((one) => one.id === id)

  start(credential: string): void {
    this.sessions = [1, 2].map((number) => session(number, credential))
    this.open = this.sessions.map((one, index) => tunnel(index, one))
  }
}

/** The API with its own URL, two agents, and two users of a login with a session each. */
export async function openStage(t: Test, connect: (host: string, port: number) => Client): Promise<Stage> {
  const agents = new Agents()
  const { host, port, store, faults } = await openAccount(t, { ownBase: true, sources: agents })
  const ask = ngrokClient(host, port)
  const make = async (path: string, body: object): Promise<Saved> => {
    const { status, json } = await ask(path, { method: 'POST', body })
    if (status !== 201) throw new Error(`POST ${path}: ${status} ${JSON.stringify(json)}`)
    return json
  }
  agents.start((await make('/credentials', {})).id)
  const now = Date.now()
  const begun = ['ann', 'bob'].map((user) => ({
    visitor: {
      id: newId('au', now),
      provider: 'google',
      issuer: 'https://i.test',
      user,
      name: user,
      email: `${user}@i.test`
    },
    visit: {
      id: newId('as', now),
      session: `session of ${user}`,
      names: [user, `session of ${user}`] as const,
      owner: '',
      url: 'https://site.test',
      address: '192.0.2.8',
      agent: AGENT,
      begun: now,
      ends: now + 3_600_000
    }
  }))
  await store.visitors.add({ begun, active: [] })
  return { client: connect(host, port), base: `http://${host}:${port}`, make, done: new Set(), faults }
}
