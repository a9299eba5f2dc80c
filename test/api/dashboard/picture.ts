import { mkdir } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import t from 'tap'
import { packageRoot } from '../../../src/lib/files.js'
import { openBrowser, showPlace, signIn } from './browser.js'
import { startBusyProduct } from './busy.js'

/**
 * `npm run picture [-- FOLDER]`: makes pictures of every page of the dashboard, 1280 and 360 px wide, dark and light, in FOLDER
 * (`dist-test/pictures`), and the picture of the documentation.
 */
const FILE = join(packageRoot(), 'docs', 'images', 'dashboard.png')
const FOLDER = resolve(process.argv[2] ?? join(packageRoot(), 'dist-test', 'pictures'))
const WIDTHS = [1280, 360]
/** Seconds of traffic that the charts show. */
const SECONDS = 15

// The helpers are those of tests, and a test would end after half a minute.
t.setTimeout(0)
const ends: (() => Promise<void>)[] = []
const life = { teardown: (end: () => Promise<void>) => void ends.unshift(end) }
try {
  const { sluice, places, visit } = await startBusyProduct(life)
  const browser = await openBrowser()
  life.teardown(() => browser.close())
  const url = `http://127.0.0.1:${sluice.apiPort}/`
  await Promise.all([mkdir(dirname(FILE), { recursive: true }), mkdir(FOLDER, { recursive: true })])
  const from = Date.now()
  for (let sent = 0; Date.now() - from < SECONDS * 1_000; sent++) {
    await visit(sent)
    await new Promise((passed) => setTimeout(passed, 100 + Math.random() * 300))
  }
  for (const colorScheme of ['light', 'dark'] as const) {
    const context = await browser.newContext({ colorScheme, reducedMotion: 'reduce' })
    const page = await context.newPage()
    await page.setViewportSize({ width: 1280, height: 1000 })
    await page.goto(url)
    await signIn(page, sluice.apiKey)
    if (colorScheme === 'light') {
      await showPlace(page, 'traffic')
      await page.screenshot({ path: FILE })
    }
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 800 })
      for (const [name, place] of places) {
        await showPlace(page, place)
        await page.screenshot({ path: join(FOLDER, `${name}-${width}-${colorScheme}.png`), fullPage: true })
      }
    }
    await context.close()
  }
} finally {
  for (const end of ends) await end()
}
