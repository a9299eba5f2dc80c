import { startPostgres } from '../store/postgres-server.js'
import { broken, type Fault, type Outcome } from './fault.js'
import { Product } from './product.js'
import { Site } from './site.js'

const key = (fill: string) => Buffer.alloc(32, fill).toString('base64')

/** A process starts beside a store with secrets and has another key than the one that sealed them. */
export const wrongSealKey: Fault = {
  name: 'a wrong seal key',
  within: 120,
  async run(stage): Promise<Outcome> {
    const server = await startPostgres(stage as never)
    const env = { SLUICE_STORE: await server.database() }
    const right = { env: { ...env, SLUICE_SEAL_KEY: key('a') } }
    const first = await Product.start(stage, right)
    const site = await Site.make(first)
    await site.write(first, 'before')
    const post = (path: string, body: unknown) => first.ask(path, { method: 'POST', body })
    const vault = await post('/vaults', { name: 'main' })
    const made = await post('/vault_secrets', { name: 'one', value: 'hidden', vault_id: vault.json.id })
    await first.stop()
    const ended = await Product.refused(stage, { env: { ...env, SLUICE_SEAL_KEY: key('b') } })
    const third = await Product.start(stage, right)
    const shown = await third.ask(`/vault_secrets/${made.json.id}`)
    return {
      clients: 'the process with the wrong key serves nobody; the one with the right key serves all',
      operator: ended === undefined ? 'nothing: it started' : `exit ${ended.code}: “${ended.said}”`,
      lost: [...(await site.lost(third)), ...(shown.status === 200 ? [] : ['the secret'])],
      broken: broken({
        'the secret is made': made.status === 201,
        'the start is refused': ended !== undefined && ended.code !== 0,
        'it says so': /seal/i.test(ended?.said ?? '')
      })
    }
  }
}
