import { expressionMicro } from './expression-micro.js'
import { jwtMicro } from './jwt-micro.js'
import { limiterMicro } from './limiter-micro.js'
import { modulesMicro } from './modules-micro.js'
import { routesMicro } from './routes-micro.js'
import { webhookMicro } from './webhook-micro.js'

/** Nanoseconds of the steps that every request pays. `npm run bench:micro -- [--insertions N]` */
const at = process.argv.indexOf('--insertions')
const insertions = at === -1 ? 10_000_000 : Number(process.argv[at + 1])

console.log('expressions')
for (const line of expressionMicro()) print(line)
console.log('routes')
for (const line of routesMicro()) print(line)
console.log('modules')
for (const line of modulesMicro()) print(line)
console.log('tokens')
for (const line of await jwtMicro()) print(line)
console.log('webhooks')
for (const line of webhookMicro()) print(line)
console.log('limiter')
for (const line of limiterMicro(insertions)) print(line)

function print({ name, nanoseconds, note }: { name: string; nanoseconds: number; note?: string }): void {
  console.log(
    `  ${nanoseconds.toFixed(0).padStart(8)} ns  ${name}${note === undefined || note === '' ? '' : `  (${note})`}`
  )
}
