import { csvOf, parseCsv } from './csv.js'
import { panelsOf, svgOf } from './plot.js'

const ROWS = [
  { seconds: 60, 'memory, MB: ingest': 40, 'memory, MB: engine <1>': 4, 'files: all': 0 },
  { seconds: 120, 'memory, MB: ingest': 80, 'memory, MB: engine <1>': 5.123456, 'files: all': 0 },
]

test('a table is drawn from what is kept of it', () => {
  const panels = panelsOf(parseCsv(csvOf(ROWS)))
  const ingest = {
    name: 'ingest',
    points: [
      [60, 40],
      [120, 80],
    ],
  }
  const engine = {
    name: 'engine <1>',
    points: [
      [60, 4],
      [120, 5.1235],
    ],
  }
  expect(panels).toEqual([
    { title: 'memory, MB', curves: [ingest, engine] },
    {
      title: 'files',
      curves: [
        {
          name: 'all',
          points: [
            [60, 0],
            [120, 0],
          ],
        },
      ],
    },
  ])
})

test('a curve stands where its values are on the scale', () => {
  const svg = svgOf(panelsOf(parseCsv(csvOf(ROWS))))
  // The scale ends at 100, 28 from the top, and begins 110 below; the time ends at 640.
  expect(svg).toContain('points="350,94 640,50"')
  expect(svg).toContain('<title>memory, MB; files</title>')
  expect(svg).toContain('>100</text>')
  expect(svg).toContain('>2 min</text>')
  expect(svg).toContain('engine &lt;1>')
  expect(svg).not.toContain('NaN')
  // The second panel is all 0, at its foot.
  expect(svg).toContain('points="350,306 640,306"')
})
