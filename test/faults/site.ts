import type { Answer } from '../api/asking.js'
import type { Stage } from './fault.js'
import type { Product } from './product.js'

const HOST = 'shop.test'
const CLIENTS = 4
/** Between two requests of a client, in milliseconds. */
const PAUSE = 5

function policy(marker: string): { value: string } {
  const config = { status_code: 200, body: marker }
  return { value: JSON.stringify({ on_http_request: [{ actions: [{ type: 'custom-response', config }] }] }) }
}

/** A site whose answer says which write made it, and what was acknowledged of those writes. */
export class Site {
  /** What the last acknowledged write has set. */
  acknowledged = 'first'
  readonly #route: string

  private constructor(route: string) {
    this.#route = route
  }

  static async make({ ask }: Product): Promise<Site> {
    const made = async (path: string, body: unknown) => {
      const { status, json, text } = await ask(path, { method: 'POST', body })
      if (status !== 201) throw new Error(`POST ${path} was answered ${status} ${text}`)
      return json.id as string
    }
    const edge = await made('/edges/https', { hostports: [`${HOST}:443`] })
    const routes = `/edges/https/${edge}/routes`
    return new Site(`${routes}/${await made(routes, { match: '/', traffic_policy: policy('first') })}`)
  }

  async write({ ask }: Product, marker: string): Promise<Answer> {
    const answer = await ask(this.#route, { method: 'PATCH', body: { traffic_policy: policy(marker) } })
    if (answer.status === 200) this.acknowledged = marker
    return answer
  }

  /** What its clients get. */
  serves(product: Product): Promise<string> {
    return Site.serving(product)
  }

  /** What clients of a process get that was started on the records of the site. */
  static async serving({ visit }: Product): Promise<string> {
    return (await visit('/', { headers: { host: HOST } })).text
  }

  /** What the API shows. */
  async stored({ ask }: Product): Promise<string> {
    const { status, json } = await ask(this.#route)
    if (status !== 200) return `an answer ${status}`
    return JSON.parse(json.traffic_policy.value).on_http_request[0].actions[0].config.body as string
  }

  /** The acknowledged writes that are not there any more. */
  async lost(product: Product): Promise<string[]> {
    const [stored, served] = [await this.stored(product), await this.serves(product)]
    const wanted = this.acknowledged
    return [
      ...(stored === wanted ? [] : [`the store has ${stored} instead of ${wanted}`]),
      ...(served === wanted ? [] : [`clients get ${served} instead of ${wanted}`])
    ]
  }
}

/** Clients of a site that never stop asking. */
export class Traffic {
  visits = 0
  /** Milliseconds. */
  slowest = 0
  readonly failed: string[] = []
  #running = true
  readonly #done: Promise<unknown>

  constructor(stage: Stage, product: Product) {
    this.#done = Promise.all(Array.from({ length: CLIENTS }, () => this.#client(product)))
    stage.teardown(() => this.stop())
  }

  /** Ends it and says what its clients saw. */
  async stop(): Promise<string> {
    this.#running = false
    await this.#done
    const failures = this.failed.length === 0 ? 'none failed' : `${this.failed.length} FAILED (${this.failed[0]})`
    return `${this.visits} requests, ${failures}, slowest ${Math.round(this.slowest)} ms`
  }

  async #client({ visit }: Product): Promise<void> {
    while (this.#running) {
      const begun = performance.now()
      const seen = await visit('/', { headers: { host: HOST } }).then(
        ({ status }) => (status === 200 ? undefined : String(status)),
        (error: Error) => error.message
      )
      this.visits++
      this.slowest = Math.max(this.slowest, performance.now() - begun)
      if (seen !== undefined) this.failed.push(seen)
      await new Promise((resolve) => setTimeout(resolve, PAUSE))
    }
  }
}
