# SPDX-License-Identifier: Apache-2.0
"""libdevice: Bessel functions. Errors are absolute around the zeros, where no unit of the last place is told.

fp32 is computed in fp64 and rounded once. Up to 8 they are polynomials in x^2, beyond amplitude and phase
polynomials in 1 / x^2 (Abramowitz and Stegun, 9.2); the fits are ours.
"""
import libtile
import libtile.language as tl


@libtile.jit
def inside_0(u):
    """(J0, regular part of Y0) for x in [0, 8]; u = x^2 / 32 - 1."""
    j = polynomial(u, (0.04582966485981377, 0.9303012472958572, -0.6484692830871837, -0.808088807669687,
                       1.0383794611437211, -0.507468045847102, 0.14598884856759264, -0.028472718610869575,
                       0.004058078989140991, -0.00044354592247271616, 3.8473197855944406e-05, -2.7177491450348606e-06,
                       1.595610910454382e-07, -7.91540772613074e-09, 3.363447579149498e-10, -1.238464418210802e-11,
                       4.003763198544757e-13, -1.1380595432215676e-14))
    y = polynomial(u, (-0.382250654459425, -0.8284358903604587, 1.6470964788745466, 0.14412632369302442,
                       -1.0775477338215995, 0.6721770783431723, -0.21895747096171628, 0.046367047681347105,
                       -0.0070257410572709695, 0.0008061586060550506, -7.279541882454126e-05, 5.321318633761208e-06,
                       -3.218507844592323e-07, 1.6391065240160875e-08, -7.130461466149226e-10, 2.6818237435502344e-11,
                       -8.840111900737966e-13, 2.5576616218907466e-14))
    return j, y


@libtile.jit
def inside_1(u):
    """(J1, regular part of Y1) by x, likewise."""
    j = polynomial(u, (-0.05814382795599107, 0.08105866038589796, 0.15151665143806634, -0.2595948652859303,
                       0.15858376432721938, -0.054745818212847276, 0.012456814392255438, -0.002029039494570245,
                       0.0002494945813909099, -2.4045748660869506e-05, 1.8684525371950885e-06, -1.1967081644265458e-07,
                       6.431268798326299e-09, -2.9430378793535847e-10, 1.1610590176624424e-11, -3.9908120700697754e-13,
                       1.2095547763548495e-14, -3.237828825886891e-16))
    y = polynomial(u, (0.07075985882118005, -0.24337743079193114, 0.023367571720993584, 0.23507209206669755,
                       -0.19639839859930425, 0.07854786922242545, -0.019628756833099423, 0.0034224907399180455,
                       -0.00044381734351149876, 4.4674330129143775e-05, -3.6009998743578177e-06, 2.3804929913727272e-07,
                       -1.3153322551124148e-08, 6.16974260611845e-10, -2.488750990528334e-11, 8.728814257439169e-13,
                       -2.6951389107285232e-14, 7.338090945282559e-16))
    return j, y


@libtile.jit
def outside(x, order: tl.constexpr):
    """(J, Y) of order 0 or 1 for x >= 8: sqrt(2 / (pi x)) (P cos a - Q sin a, P sin a + Q cos a) with
    a = x - (2 order + 1) pi/4."""
    t = 8.0 / x
    w = t * t - 0.5
    if order == 0:
        p = polynomial(w, (0.9994572757882519, -0.001072734638425996, 2.454966432502768e-05, -1.64219585592718e-06,
                           2.04859967341134e-07, -3.8787626237690464e-08, 9.924063294788824e-09, -3.1876372749931277e-09,
                           1.196796464452104e-09, -5.242023436423172e-10, 3.535066435656372e-10, -2.0391504603291065e-10))
        q = polynomial(w, (-0.12444091103610802, 0.0010933038558949358, -4.726844268034546e-05, 4.547977535030038e-06,
                           -7.255940152610266e-07, 1.6467806020934252e-07, -4.85158008380387e-08, 1.7460968329636103e-08,
                           -7.1485393799071555e-09, 3.3831786890504224e-09, -2.5558993929146393e-09, 1.568888565760958e-09))
    else:
        p = polynomial(w, (1.0009070262780821, 0.0017976098833411016, -3.1838778798626794e-05, 1.962941301435973e-06,
                           -2.353359788145148e-07, 4.352962023733027e-08, -1.0967817963642248e-08, 3.4849270534348338e-09,
                           -1.2984911303481045e-09, 5.652683001780899e-10, -3.782952050029469e-10, 2.1732281186744534e-10))
        q = polynomial(w, (0.3742149922195917, -0.0015394334115286172, 5.827845927707258e-05, -5.306854880133023e-06,
                           8.217752226966481e-07, -1.830670812757728e-07, 5.32518185846351e-08, -1.8989415180107476e-08,
                           7.724328889906923e-09, -3.6360699046497446e-09, 2.7270353263299996e-09, -1.667789879556041e-09))
    q *= 0.125 * t
    sine, cosine = tl.sin(x), tl.cos(x)
    # Of x - pi/4, and for order 1 of a quarter turn less.
    s, c = (sine - cosine) * 0.7071067811865476, (sine + cosine) * 0.7071067811865476
    if order == 1:
        s, c = -c, s
    root = tl.sqrt(0.6366197723675814 / x)
    return root * (p * c - q * s), root * (p * s + q * c)


@libtile.jit
def bessel_j(x, order: tl.constexpr):
    """J0 or J1 of fp64."""
    size = tl.abs(x)
    near = tl.minimum(size, 8.0)
    u = near * near * 0.03125 - 1.0
    if order == 0:
        small, _ = inside_0(u)
        small = tl.where(size < 2.0 ** -27, 1.0, small)
    else:
        small, _ = inside_1(u)
        small *= near
    large, _ = outside(tl.where((size > 8.0) & (size < float("inf")), size, 8.0), order)
    value = tl.where(size <= 8.0, small, large)
    value = tl.where(size == float("inf"), 0.0, value)
    if order == 1:
        value = tl.where(bits_of(x) < 0, -value, value)
    return tl.where(x != x, x, value)


@libtile.jit
def bessel_y(x, order: tl.constexpr):
    """Y0 or Y1 of fp64; -inf at 0, NaN below."""
    near = tl.where(x > 8.0, 8.0, tl.where(x > 0.0, x, 1.0))
    u = near * near * 0.03125 - 1.0
    logarithm = 0.6366197723675814 * tl.log(near)
    if order == 0:
        j, y = inside_0(u)
        small = tl.fma(logarithm, j, y)
    else:
        j, y = inside_1(u)
        small = near * tl.fma(logarithm, j, y) - 0.6366197723675814 / near
    _, large = outside(tl.where((x > 8.0) & (x < float("inf")), x, 8.0), order)
    value = tl.where(x <= 8.0, small, tl.where(x == float("inf"), 0.0, large))
    value = tl.where(x == 0.0, -float("inf"), value)
    return tl.where(x >= 0.0, value, float("nan"))


@libtile.jit
def j0(arg0):
    """Within 2^-50 (fp32: 2^-25 of the larger of result and 2^-24)."""
    return bessel_j(arg0.to(tl.float64), 0).to(arg0.dtype)


@libtile.jit
def j1(arg0):
    """As j0."""
    return bessel_j(arg0.to(tl.float64), 1).to(arg0.dtype)


@libtile.jit
def y0(arg0):
    """Within 2^-50 of the larger of result and 1; -inf at 0, NaN below."""
    return bessel_y(arg0.to(tl.float64), 0).to(arg0.dtype)


@libtile.jit
def y1(arg0):
    """As y0."""
    return bessel_y(arg0.to(tl.float64), 1).to(arg0.dtype)


@libtile.jit
def modified(x, order: tl.constexpr):
    """I0 or I1 of fp64 |x|, from polynomials with positive terms: below 4 ulp."""
    size = tl.abs(x)
    near = 0.5 * tl.minimum(size, 8.0)
    far = tl.where(size < 8.0, 8.0, tl.minimum(size, 800.0))
    t = 8.0 / far - 0.5
    if order == 0:
        small = polynomial(near * near, (1.0, 1.0, 0.25, 0.027777777777777776,
                                         0.001736111111111111, 6.944444444444444e-05, 1.9290123456790124e-06, 3.9367598891408404e-08,
                                         6.1511873267826e-10, 7.59405842812553e-12, 7.594058428152455e-14, 6.276081345083664e-16,
                                         4.358389830176386e-18, 2.5789288113265985e-20, 1.3157807457925712e-22, 5.847862325546756e-25,
                                         2.2846048370807588e-27, 7.893515909914513e-30, 2.47152973292587e-32, 6.112811430028764e-35,
                                         2.4686319924276504e-37))
        large = polynomial(t, (0.4021765094450081, 0.006721103967333821, 0.0005448642975572703, 8.914427088396013e-05,
                               2.3741564286092837e-05, 9.515466987113773e-06, 5.677934166373258e-06, 5.035667451855561e-06,
                               5.528043848752598e-06, 3.823950191844204e-06, -7.17266626702771e-06, -2.6857215754121004e-05,
                               -1.8522676082864182e-05, 5.656988281802435e-05, 8.999361593677643e-05, -8.46217511021833e-05,
                               -0.0002088502667659674, 8.785210961465326e-05, 0.00028615358968015495, -4.641561638889119e-05,
                               -0.000180000285662123))
    else:
        small = near * polynomial(near * near, (1.0, 0.5, 0.08333333333333333, 0.006944444444444444,
                                                0.00034722222222222224, 1.1574074074074073e-05, 2.755731922398589e-07, 4.920949861426051e-09,
                                                6.834652585313977e-11, 7.594058428126133e-13, 6.903689480126685e-15, 5.230067787752943e-17,
                                                3.3526075594674195e-19, 1.8420920289028066e-21, 8.77187010938255e-24, 3.6549226071107205e-26,
                                                1.3438482428557439e-28, 4.386437854383067e-31, 1.2983376380526716e-33, 3.08892332469347e-36,
                                                1.1556830586103656e-38))
        large = polynomial(t, (0.38939845902587233, -0.01949915438646971, -0.0008769430553246809, -0.00012030837811906777,
                               -2.935856548746142e-05, -1.114829360989191e-05, -6.40052639876563e-06, -5.5223452758151325e-06,
                               -5.995858275001293e-06, -4.274328761002901e-06, 7.1698299683714585e-06, 2.8184314999687965e-05,
                               2.0709562548767573e-05, -5.771632307089322e-05, -9.621202147817908e-05, 8.437832139556077e-05,
                               0.00022048950890940898, -8.602977056619974e-05, -0.0003004137600996968, 4.486088293487748e-05,
                               0.00018843757571172153))
    # The power in two halves, which overflow no sooner than the result.
    half = tl.exp(0.5 * far)
    large = half * (large / tl.sqrt(far)) * half
    return tl.where(size <= 8.0, small, tl.where(x != x, x, large))


@libtile.jit
def cyl_bessel_i0(arg0):
    """Below 6 ulp."""
    return modified(arg0.to(tl.float64), 0).to(arg0.dtype)


@libtile.jit
def cyl_bessel_i1(arg0):
    """Below 6 ulp; the sign of arg0."""
    x = arg0.to(tl.float64)
    return with_sign(modified(x, 1), x).to(arg0.dtype)


@libtile.jit
def largest(n):
    """The largest of the integers of a tile or scalar."""
    if len(n.shape) == 0:
        return n
    else:
        return tl.max(n, None)


@libtile.jit
def debye_sums(x, order):
    """Debye's expansions (Abramowitz and Stegun, 9.3.7 to 9.3.16), ten terms of them, for orders that are far from
    x > 0: (w, sum for J, sum for Y) where the order is above x, (w, even terms, odd terms) where it is below;
    w = sqrt(|x^2 - order^2|)."""
    w = tl.sqrt(tl.abs(x - order)) * tl.sqrt(x + order)
    above = order > x
    ratio = order / w
    q = tl.where(above, ratio * ratio, -ratio * ratio)
    inverse = 1.0 / w
    by = inverse * inverse
    even = polynomial_of(by, (
        tl.full((), 1.0, tl.float64), polynomial(q, (0.0703125, -0.4010416666666667, 0.3342013888888889)),
        polynomial(q, (0.112152099609375, -2.3640869140625, 8.78912353515625, -11.207002616222994, 4.669584423426247)),
        polynomial(q, (0.5725014209747314, -26.491430486951554, 218.1905117442116, -699.5796273761325,
                       1059.9904525279999, -765.2524681411817, 212.57013003921713)),
        polynomial(q, (6.074042001273483, -493.915304773088, 7109.514302489364, -41192.65496889755, 122200.46498301746,
                       -203400.17728041555, 192547.00123253153, -96980.59838863752, 20204.29133096615)),
        polynomial(q, (110.01714026924674, -13886.08975371704, 308186.4046126624, -2785618.1280864547,
                       13288767.166421818, -37567176.66076335, 66344512.27472903, -74105148.21153265,
                       50952602.49266464, -19706819.118432228, 3284469.853072038))), above)
    odd = inverse * polynomial_of(by, (
        polynomial(q, (0.125, -0.20833333333333334)),
        polynomial(q, (0.0732421875, -0.8912109375, 1.8464626736111112, -1.0258125964506173)),
        polynomial(q, (0.22710800170898438, -7.368794359479632, 42.53499874538846, -91.81824154324002,
                       84.63621767460073, -28.212072558200244)),
        polynomial(q, (1.7277275025844574, -108.09091978839466, 1200.9029132163525, -5305.646978613403,
                       11655.393336864534, -13586.550006434138, 8061.722181737309, -1919.457662318407)),
        polynomial(q, (24.380529699556064, -2499.8304818112097, 45218.76898136273, -331645.1724845636,
                       1268365.2733216248, -2813563.226586534, 3763271.297656404, -2998015.9185381066,
                       1311763.6146629772, -242919.18790055133))), above)
    return w, tl.where(above, even + odd, even), tl.where(above, even - odd, odd)


@libtile.jit
def polynomial_of(x, terms, above):
    """terms[0] + terms[1] x + ..., with signs that alternate where not `above`."""
    y = tl.where(above, x, -x)
    last: tl.constexpr = len(terms) - 1
    value = terms[last]
    for i in tl.static_range(1, last + 1):
        value = tl.fma(value, y, terms[last - i])
    return value


@libtile.jit
def debye_above(x, order, w, first, other, flat, second: tl.constexpr):
    """e^(w - order arcosh(order / x)) / sqrt(2 pi w), and for Y twice its inverse."""
    power = -flat if w < 0.1 * order else w - order * tl.extra.libdevice.log1p((order - x + w) / x)
    root = tl.sqrt(0.6366197723675814 / w)
    return -tl.exp(-power) * root * other if second else 0.5 * tl.exp(power) * root * first


@libtile.jit
def debye_below(x, order, w, first, other, flat, second: tl.constexpr):
    """By sine and cosine of w - order arccos(order / x) - pi/4. Where x is large, it is taken apart from the rest: its
    own sine and cosine are exact."""
    by = tl.extra.libdevice.atan2(w, order)
    turns = 0
    begin, angle = x * 0.0, tl.where(w < 0.1 * order, flat, w - order * by)
    if x >= 2.0 * order:
        turns = order.to(tl.int32) & 3
        begin, angle = x, order * (1.5707963267948966 - by) - order * (order / (x + w))
    s, c = tl.where(turns == 1, -1.0, tl.where(turns == 3, x * 0.0 + 1.0, 0.0)), tl.where(
        turns == 0, x * 0.0 + 1.0, tl.where(turns == 2, -1.0, 0.0))
    # A loop, for sine and cosine are long.
    for _ in range(0, 2):
        sine, cosine = tl.sin(begin), tl.cos(begin)
        s, c = s * cosine + c * sine, c * cosine - s * sine
        begin = angle
    s, c = (s - c) * 0.7071067811865476, (s + c) * 0.7071067811865476
    return tl.sqrt(0.6366197723675814 / w) * ((first * s - other * c) if second else (first * c + other * s))


@libtile.jit
def debye(x, order, second: tl.constexpr):
    """J, or Y if `second`, of an integral order that is far from x > 0."""
    w, first, other = debye_sums(x, order)
    # order (arctan t - t) below x and order (artanh t - t) above, where t is small.
    t = w / order
    z = tl.where(order > x, t * t, -t * t)
    flat = order * (t * t * t) * polynomial(z, (0.3333333333333333, 0.2, 0.14285714285714285, 0.1111111111111111,
                                                0.09090909090909091, 0.07692307692307693, 0.06666666666666667,
                                                0.058823529411764705, 0.05263157894736842))
    if order > x:
        value = debye_above(x, order, w, first, other, flat, second)
    else:
        value = debye_below(x, order, w, first, other, flat, second)
    return value


@libtile.jit
def far_order(x, n, second: tl.constexpr):
    """J or Y of fp64 x > 0 and an order above 256. Debye's expansions hold to all digits where the order is further
    than 16 x^(1/3) from x. From there the recurrence comes closer, J upwards below x and downwards above, Y upwards."""
    order = n.to(tl.float64)
    margin = 16.1 * tl.exp2(tl.log2(tl.minimum(x, 1.0e30).to(tl.float32)) * 0.33333334).to(tl.float64)
    upwards = (order <= x + margin) if second else (order <= x)
    low = tl.floor(tl.minimum(order, x - margin))
    high = order if second else tl.ceil(tl.maximum(order, x + margin))
    start, step = tl.where(upwards, low, high), tl.where(upwards, 1.0, -1.0).to(tl.float64)
    value, slope = x * 0.0, x * 0.0
    for back in range(-1, 1):
        here = debye(x, start + step * back, second)
        value, slope = here, here - value
    # (2 k / x) value - before, by differences: the factor is close to 2.
    for k in range(0, tl.abs(order - start).to(tl.int32)):
        slope = tl.fma(2.0 * (start - x + step * k) / x, value, slope)
        value += slope
    return value


@libtile.jit
def any_order(n, x, near, second: tl.constexpr):
    """`near`, but far_order of what it does not hold for."""
    value = near
    if (n > 256) & (x > 0.0) & (x < float("inf")):
        value = far_order(x, n, second)
    return value


@libtile.jit
def any_order_j(n, x, near):
    return any_order(n, x, near, False)


@libtile.jit
def any_order_y(n, x, near):
    return any_order(n, x, near, True)


@libtile.jit
def jn(arg0, arg1):
    """Of orders 0 and up; NaN below. Within 2^-50 + order 2^-51, times the amplitude that J has there. The recurrence
    up to order 256, upwards below x and downwards from far above for others (J. C. P. Miller)."""
    x = tl.abs(arg1.to(tl.float64))
    usual = (x > 0.0) & (x < float("inf"))
    x = tl.where(usual, x, 1.0)
    order = tl.minimum(arg0, 256)
    most = largest(order)
    before, value = bessel_j(x, 0), bessel_j(x, 1)
    first = before
    for k in range(1, most):
        after = (2.0 * k) / x * value - before
        going = k < order
        before, value = tl.where(going, value, before), tl.where(going, after, value)
    # Downwards, then scaled so that J0 + 2 J2 + 2 J4 + ... = 1. Below 1e-8 it is a power of x to all digits.
    wide = tl.maximum(x, 1.0e-8)
    above, here, wanted, total = x * 0.0, x * 0.0 + 1.0e-300, x * 0.0, x * 0.0
    start = (most + 60) // 2 * 2
    for back in range(0, start):
        k = start - back
        below = (2.0 * k) / wide * here - above
        above, here = here, below
        large = tl.abs(here) > 1.0e200
        above, here = tl.where(large, above * 1.0e-200, above), tl.where(large, here * 1.0e-200, here)
        wanted, total = tl.where(large, wanted * 1.0e-200, wanted), tl.where(large, total * 1.0e-200, total)
        wanted = tl.where(k - 1 == order, here, wanted)
        total += tl.where((k - 1) % 2 == 0, 2.0 * here, 0.0)
    downwards = wanted / (total - here)
    shrunk = tl.exp(order.to(tl.float64) * tl.log(x / wide))
    downwards *= tl.where(x < wide, tl.where(order == 1, x / wide, shrunk), 1.0)
    value = tl.where(order == 0, first, tl.where(order > x, downwards, value))
    value = tl.map_elementwise(any_order_j, arg0, tl.where(usual, x, 0.0), value)
    value = tl.where((arg0 % 2 == 1) & (bits_of(arg1) < 0), -value, value)
    value = tl.where(usual, value, tl.where((arg1 == 0.0) & (arg0 == 0), 1.0, 0.0))
    return tl.where((arg0 < 0) | (arg1 != arg1), float("nan"), value).to(arg1.dtype)


@libtile.jit
def yn(arg0, arg1):
    """Of orders 0 and up, as y0 and jn, with a relative error where it grows beyond 1; NaN below and for arg1 < 0."""
    x = arg1.to(tl.float64)
    order = tl.minimum(arg0, 256)
    before, value = bessel_y(x, 0), bessel_y(x, 1)
    first = before
    for k in range(1, largest(order)):
        after = tl.where(value == -float("inf"), value, (2.0 * k) / x * value - before)
        going = k < order
        before, value = tl.where(going, value, before), tl.where(going, after, value)
    value = tl.map_elementwise(any_order_y, arg0, x, tl.where(order == 0, first, value))
    return tl.where(arg0 < 0, float("nan"), value).to(arg1.dtype)
