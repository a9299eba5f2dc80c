import { existsSync } from 'node:fs'
import { mkdir, readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { type Browser, type BrowserContext, chromium, type Locator, type Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { account } from '../../helpers/account.js'
import { type RunningSluice, type SluiceSetup, startSluice } from '../../helpers/sluice.js'
import type { Answer, Asked } from '../asking.js'

const CHROMIUM = ['/usr/bin/chromium', '/usr/bin/chromium-browser'].find((path) => existsSync(path))

const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js')

/** Why tests in a browser cannot run here, for `skip` of a test; false when they can. */
export const missing: string | false = CHROMIUM === undefined ? "needs Debian's chromium" : false
if (missing !== false && process.env.SLUICE_TEST_LONG !== undefined) t.fail(missing)

/** Where pictures of the pages are kept; undefined: nowhere. */
const PICTURES = process.env.SLUICE_TEST_PICTURES

interface DashboardSetup extends SluiceSetup {
  /** What the browser's window shows. Pixels. */
  readonly size?: { readonly width: number; readonly height: number }
  readonly scheme?: 'dark' | 'light'
  /** Signs in with this key; the operator's when left out; null: does not sign in. */
  readonly key?: string | null
  /** What the console may say, beside nothing. */
  readonly allow?: RegExp
  /** A running product in the place of one that is started. */
  readonly sluice?: RunningSluice
}

export interface OpenDashboard {
  readonly page: Page
  readonly sluice: RunningSluice
  /** Address of the dashboard. */
  readonly url: string
  readonly context: BrowserContext
  /** A call of the management API with the operator's key. */
  call(path: string, asked?: Asked): Promise<Answer>
  /** Opens a place of the dashboard: `traffic`, `limits/…`. What it shows first is there. */
  go(place: string): Promise<void>
  /** Keeps a picture of what is shown, where pictures are wanted. */
  picture(name: string): Promise<void>
}

/**
 * The whole product and a real browser that shows its dashboard, both gone with the test. The test fails when the page
 * throws, writes an error to its console, breaks its content security policy or asks another server for anything. Answers of
 * the API that are errors are no fault of the page.
 */
export async function dashboard(t: Test, setup: DashboardSetup = {}): Promise<OpenDashboard> {
  const sluice = setup.sluice ?? (await startSluice(t, setup))
  const context = await (await sharedBrowser()).newContext({
    viewport: setup.size ?? { width: 1280, height: 800 },
    colorScheme: setup.scheme ?? 'light',
    reducedMotion: 'reduce'
  })
  const page = await context.newPage()
  const url = `http://127.0.0.1:${sluice.apiPort}/`
  const faults: string[] = []
  page.on('pageerror', (error) => faults.push(String(error)))
  page.on('console', (message) => {
    const text = message.text()
    const expected = /the server responded with a status of|net::ERR_/.test(text) || setup.allow?.test(text)
    if (message.type() === 'error' && expected !== true) faults.push(text)
  })
  page.on('request', (request) => {
    if (!request.url().startsWith(url) && !/^(?:data|blob):/.test(request.url())) faults.push(`asked ${request.url()}`)
  })
  t.teardown(async () => {
    await context.close()
    if (faults.length > 0) throw new Error(`the page made errors: ${faults.join('; ')}`)
  })
  await page.goto(url)
  if (setup.key !== null) await signIn(page, setup.key ?? sluice.apiKey)
  return {
    page,
    sluice,
    url,
    context,
    call: account(sluice),
    go: (place) => showPlace(page, place),
    async picture(name) {
      if (PICTURES === undefined) return
      await mkdir(PICTURES, { recursive: true })
      await page.screenshot({ path: join(PICTURES, `${name}.png`), fullPage: true })
    }
  }
}

/** Opens a place of the dashboard. What it shows first is there. */
export async function showPlace(page: Page, place: string): Promise<void> {
  await page.evaluate(`location.hash = ${JSON.stringify(`#/${place}`)}`)
  // In a narrow window the links are in a menu that is closed.
  const link = page.locator(`nav [aria-current][href="#/${place.split(/[/?]/)[0]}"]`)
  await link.waitFor({ state: 'attached' })
  await page.locator('main h1').waitFor()
  const waiting = page.locator('main .wait')
  while ((await waiting.count()) > 0) await waiting.first().waitFor({ state: 'detached' })
}

let shared: Promise<Browser> | undefined

/** One browser for the tests of a file: starting it costs as much as most of them, and their contexts share nothing. */
function sharedBrowser(): Promise<Browser> {
  if (shared === undefined) {
    const opened = openBrowser()
    shared = opened
    t.teardown(async () => {
      shared = undefined
      await (await opened).close()
    })
  }
  return shared
}

/** A browser of the machine. */
export async function openBrowser(): Promise<Browser> {
  return await chromium.launch({
    ...(CHROMIUM === undefined ? {} : { executablePath: CHROMIUM }),
    args: ['--no-sandbox', '--disable-gpu']
  })
}

/** Signs in on the page, as a person does. */
export async function signIn(page: Page, key: string): Promise<void> {
  await page.getByLabel('API key').fill(key)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('navigation', { name: 'Pages' }).waitFor()
}

/** Replaces the text of an editor by another one, as a person pastes it. */
export async function paste(editor: Locator, text: string): Promise<void> {
  const page = editor.page()
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
  await page.evaluate(`navigator.clipboard.writeText(${JSON.stringify(text)})`)
  await editor.press('ControlOrMeta+a')
  await editor.press('ControlOrMeta+v')
}

/** What axe-core finds wrong with a page (WCAG 2.1 A and AA). */
export async function violations(page: Page): Promise<readonly string[]> {
  await page.evaluate(await readFile(AXE, 'utf8'))
  const { violations: found } = (await page.evaluate(
    "axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'] })"
  )) as { violations: { id: string; nodes: { html: string; failureSummary: string }[] }[] }
  return found.map(({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.html} ${node.failureSummary}`).join('; ')}`)
}
