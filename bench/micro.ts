import { argument } from './argument.js'
import { contentionMicro } from './contention-micro.js'
import { expressionMicro } from './expression-micro.js'
import { jwtMicro } from './jwt-micro.js'
import { limiterMicro } from './limiter-micro.js'
import { loginMicro } from './login-micro.js'
import { modulesMicro } from './modules-micro.js'
import { routesMicro } from './routes-micro.js'
import type { MicroResult } from './timing.js'
import { tracesMicro } from './traces-micro.js'
import { webhookMicro } from './webhook-micro.js'

const insertions = Number(argument('insertions', '10000000'))

const subjects: Readonly<Record<string, () => readonly MicroResult[] | Promise<readonly MicroResult[]>>> = {
  expressions: expressionMicro,
  routes: routesMicro,
  modules: modulesMicro,
  logins: loginMicro,
  tokens: jwtMicro,
  webhooks: webhookMicro,
  traces: tracesMicro,
  limiter: () => limiterMicro(insertions),
  threads: contentionMicro
}

/**
 * Nanoseconds of the steps that every request pays: of every subject, or of those that are named.
 * `npm run bench:micro -- [SUBJECT…] [--insertions N]`
 */
const named = process.argv.slice(2).filter((word) => word in subjects)
for (const [subject, run] of Object.entries(subjects)) {
  if (named.length > 0 && !named.includes(subject)) continue
  console.log(subject)
  for (const line of await run()) print(line)
}

function print({ name, nanoseconds, note }: MicroResult): void {
  console.log(
    `  ${nanoseconds.toFixed(0).padStart(8)} ns  ${name}${note === undefined || note === '' ? '' : `  (${note})`}`
  )
}
