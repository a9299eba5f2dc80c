import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chown, mkdir, open, readFile, writeFile } from 'node:fs/promises'
import { Agent, request } from 'node:http'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { lacks } from '../helpers/small-disk.js'
import { until } from '../helpers/until.js'
import { startOwnPostgres } from '../store/postgres-server.js'
import { FOLDER, only } from './containerfile.js'
import { executable } from './executable.js'
import { type Container, type Image, insideContainer, lacksImages, makeImage } from './image.js'
import { makeNetwork, publish } from './networks.js'

const run = promisify(execFile)
const USER = 65_532
/** Requests that the limit of the test admits. */
const CAPACITY = 300
const SITES = `sites:
  x.test:
    redirect: off
    policy:
      on_http_request:
        - actions:
            - type: rate-limit
              config: { name: all, algorithm: sliding_window, capacity: ${CAPACITY}, rate: 1h, bucket_key: [req.url.path], scope: cluster }
            - { type: custom-response, config: { status_code: 200, body: served } }
`

interface Service {
  /** Variables without a value here come from the environment of the command. */
  readonly environment: Readonly<Record<string, string | null>>
  readonly ports: readonly string[]
  readonly volumes: readonly string[]
  readonly depends_on?: Readonly<Record<string, { condition: string }>>
  readonly healthcheck?: { readonly test: readonly string[] }
  readonly stop_grace_period?: string
  readonly read_only?: boolean
}

/** Returns a value of the compose file with the variables in it: `${NAME:?text}` has to be set, `${NAME:-text}` has a default. */
function interpolated(text: string, variables: Readonly<Record<string, string>>): string {
  return text.replace(/\$\{(\w+):([?-])([^}]*)\}/g, (_, name: string, kind: string, rest: string) => {
    const value = variables[name] || undefined
    if (value === undefined && kind === '?') throw new Error(`${name}: ${rest}`)
    return value ?? rest
  })
}

interface Member {
  readonly child: ChildProcess
  readonly traffic: number
  readonly api: number
  health(): Promise<{ stdout: string }>
}

/** Sends a request on a connection of a member; returns the status. */
async function ask(agent: Agent, { traffic }: Member, path: string): Promise<number> {
  const sent = request({ agent, port: traffic, host: '127.0.0.1', path, headers: { host: 'x.test' } })
  sent.end()
  const [answer] = (await once(sent, 'response')) as [import('node:http').IncomingMessage]
  answer.resume()
  await once(answer, 'end')
  return answer.statusCode ?? 0
}

/** Sends requests to the members by turns; returns how many were served. All others were refused by the limit. */
async function served(t: Test, members: readonly Member[], path: string, requests: number): Promise<number> {
  const agent = new Agent({ keepAlive: true, maxSockets: 4 })
  const counts = new Map<number, number>()
  let sent = 0
  const work = async () => {
    while (sent < requests) {
      const status = await ask(agent, members[sent++ % members.length] as Member, path)
      counts.set(status, (counts.get(status) ?? 0) + 1)
    }
  }
  await Promise.all(Array.from({ length: 8 }, work))
  agent.destroy()
  t.same(
    [...counts.keys()].filter((status) => status !== 200 && status !== 429),
    [],
    path
  )
  return counts.get(200) ?? 0
}

/** Starts one container of a service of the image, with its variables, volume and published ports. */
async function startMember(
  t: Test,
  image: Image,
  service: Service,
  {
    folder,
    environment,
    network
  }: { folder: string; environment: Record<string, string>; network: ReturnType<typeof makeNetwork> }
): Promise<Member> {
  const { namespace, address } = network.join(basename(folder))
  const volume = join(folder, 'volume')
  await mkdir(volume, { recursive: true, mode: 0o700 })
  await chown(volume, USER, USER)
  const container: Container = { image, volume, network: namespace }
  const env = { ...image.env, ...environment, PATH: `${image.env.PATH}:${process.env.PATH}` }
  const log = join(folder, 'log')
  const output = await open(log, 'a')
  const [command, words] = insideContainer(container, image.command)
  const child = spawn(command, words, { env, stdio: ['ignore', output.fd, output.fd] })
  await output.close()
  t.teardown(() => child.kill('SIGKILL'))
  const said = async () => await readFile(log, 'utf8')
  await until(async () => (await said()).includes('"msg":"listening"') || child.exitCode !== null)
  t.equal(child.exitCode, null, await said())
  const ports = service.ports.map((text) => Number(text.split(':').at(-1)))
  t.same(ports, [8080, 4040])
  const [traffic = 0, api = 0] = await Promise.all(
    ports.map((port) => publish(t, '127.0.0.1', 0, { host: address, port }))
  )
  return { child, traffic, api, health: () => run(...insideContainer(container, image.health), { env }) }
}

t.test(
  'the cluster of compose.yaml counts one limit, also when a member stops',
  { skip: lacksImages() || lacks('ip', ['netns', 'list']) || lacks('pg_isready', ['--version']), timeout: 1_200_000 },
  async (t) => {
    const folder = t.testdir({ 'sites.yaml': SITES })
    const text = await readFile(join(FOLDER, 'compose.yaml'), 'utf8')
    const { postgres, ...rest } = (parse(text, { merge: true }) as { services: Record<string, Service> }).services
    const processes = Object.values(rest)
    const [service] = processes as [Service]
    t.equal(processes.length, 3)
    const variables = {
      POSTGRES_PASSWORD: 'hidden',
      SLUICE_API_KEY: 'a-key-of-the-administrator',
      SLUICE_SEAL_KEY: Buffer.alloc(32, 'k').toString('base64')
    }
    const environmentOf = ({ environment }: Service, set: Record<string, string> = variables) =>
      Object.fromEntries(
        Object.entries(environment).flatMap(([name, value]) =>
          value === null ? [] : [[name, interpolated(value, set)]]
        )
      )
    t.throws(() => environmentOf(service, {}), /set it/)

    // PostgreSQL has the role and database that its image would make of these variables.
    const server = await startOwnPostgres(t)
    const { POSTGRES_USER, POSTGRES_DB, POSTGRES_PASSWORD } = environmentOf(postgres as Service)
    const client = new pg.Client({ connectionString: await server.database() })
    await client.connect()
    await client.query(`create role ${POSTGRES_USER} login superuser password '${POSTGRES_PASSWORD}'`)
    await client.query(`create database ${POSTGRES_DB} owner ${POSTGRES_USER}`)
    await client.end()
    const [, ...healthy] = postgres?.healthcheck?.test ?? []
    const [ready = '', ...words] = healthy
    t.same(service.depends_on, { postgres: { condition: 'service_healthy' } })
    await run(ready, words, { env: { ...process.env, PGHOST: '127.0.0.1', PGPORT: String(server.port) } })

    const image = await makeImage(t, join(folder, 'root'))
    const network = makeNetwork(t)
    await publish(t, network.host, 5432, { host: '127.0.0.1', port: server.port })
    // As an engine names the services of the file for each container.
    await writeFile(join(image.root, 'etc/hosts'), `127.0.0.1 localhost\n${network.host} postgres\n`)
    t.equal(service.read_only, true)
    t.same(service.volumes, only(image.instructions, 'VOLUME').match(/\/\w+/g))
    const environment = environmentOf(service)
    const members: Member[] = []
    for (const [number, each] of processes.entries())
      members.push(await startMember(t, image, each, { folder: join(folder, `m${number}`), environment, network }))
    for (const member of members) t.match((await member.health()).stdout, /^ready/)

    const [first] = members as [Member]
    const apply = ['apply', join(folder, 'sites.yaml'), '--yes', '--api', `http://localhost:${first.api}`]
    const key = {
      PATH: process.env.PATH,
      SLUICE_API_KEY: variables.SLUICE_API_KEY,
      XDG_CACHE_HOME: join(folder, 'cache')
    }
    await run(await executable(), apply, { env: key })
    const agent = new Agent({ keepAlive: false })
    for (const member of members) await until(async () => (await ask(agent, member, '/ready')) === 200)

    const together = await served(t, members, '/all', 2 * CAPACITY)
    t.ok(together <= CAPACITY && together >= CAPACITY * 0.9, `${together} of ${CAPACITY} were served`)
    const ended = once(first.child, 'exit')
    const begun = performance.now()
    first.child.kill(only(image.instructions, 'STOPSIGNAL') as NodeJS.Signals)
    t.same(await ended, [0, null])
    const grace = Number.parseInt(service.stop_grace_period ?? '', 10) * 1_000
    t.ok(performance.now() - begun < grace, `it stops within ${grace} ms`)
    await t.rejects(first.health(), { code: 1 })
    const others = members.slice(1)
    const later = await served(t, others, '/all', CAPACITY)
    t.ok(together + later <= CAPACITY, `${later} more with a member less`)
    const fresh = await served(t, others, '/after', 2 * CAPACITY)
    t.ok(fresh <= CAPACITY && fresh >= CAPACITY * 0.9, `${fresh} of ${CAPACITY} were served by the others`)
    for (const member of others) t.match((await member.health()).stdout, /^ready/)
    for (const { child } of others) {
      const gone = once(child, 'exit')
      child.kill('SIGTERM')
      t.same(await gone, [0, null])
    }
  }
)
