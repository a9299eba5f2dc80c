import Schema from 'typebox/schema'
import { policyRoutes } from '../../src/api/policy-routes.js'
import { processRoutes } from '../../src/api/process-routes.js'
import { serverCapabilities } from '../../src/capabilities/registry.js'

/** The answers that routes declare, by method and path. */
const declared = [...(await serverCapabilities()).flatMap(({ routes }) => routes), processRoutes, policyRoutes]
  .flatMap(({ routes }) => routes)
  .map(({ method, path, shapes: [, answer] }) => ({
    method,
    path: new RegExp(`^${path.replace(/\{\w+\}/g, '[^/]+')}$`),
    answer: answer as (object & Parameters<typeof Schema.Check>[0]) | undefined
  }))

/** Fails when a successful answer has another shape than its route declares. */
export function mustHaveShape(method: string, url: string, json: unknown): void {
  // A dry run answers with what the write would do.
  if (/[?&]dry_run=true/.test(url)) return
  const path = url.replace(/\?.*$/, '')
  const route = declared.find((one) => one.method === method && one.path.test(path))
  if (route?.answer === undefined || '$ref' in route.answer || Schema.Check(route.answer, json)) return
  const [, errors] = Schema.Errors(route.answer, json)
  throw new TypeError(
    `${method} ${path} answers what its route does not declare: ${JSON.stringify(errors.slice(0, 3))}`
  )
}
